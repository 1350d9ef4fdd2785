#!/bin/sh
# peers.sh: miras.h timed against PyTorch and the chunked code of flash-linear-attention, on one
# core. Needs what tests/peers.sh needs, takes its environment, and prints a table:
#   sh bench/peers.sh [folder]
#   TOKENS=1024 HEADS=4 DIM=64   the layer;   ROUNDS=7   how often; the best round counts
# CC and PYTHON as there.
PROGRAM=bench/peers.py exec sh "$(dirname "$0")/../tests/peers.sh" "$@"
