// smoke.cpp: the implementation as C++11.   c++ -std=c++11 -O2 tests/smoke.cpp -o smoke
#include "smoke.c"
