/* example.cpp: a memory that learns words' colours, and a network that learns a series, in C++17.
 *
 *     g++ -std=c++17 -O2 examples/cpp/example.cpp -o build/example && build/example
 *
 * The first part is examples/quickstart.c in short. The second trains a small network on two sine
 * waves of which it sees the sum, keeps it in a file and lets it say what comes next. */
#define MIRAS_IMPLEMENTATION
#include "../../miras.h"
#include "miras.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace {

void colours() {
  const std::array<std::array<float, 3>, 3> colour = {{{1, 0.5f, 0.31f}, {0, 0, 0.5f}, {1, 1, 1}}};
  miras::memory_desc d("yaad");
  d.key_dim = 4, d.value_dim = 3;
  miras::memory m(d);
  for (int round = 0; round < 30; round++) {
    float surprise = 0;
    for (size_t i = 0; i < colour.size(); i++) {
      float key[4] = {};
      key[i] = 1;
      surprise += m.write(key, colour[i]);
    }
    if (round % 10 == 0) std::printf("round %2d, surprise %.4f\n", round, double(surprise));
  }
  const std::vector<float> coral = m.read({1, 0, 0, 0});
  std::printf("coral is %.2f %.2f %.2f\n", double(coral[0]), double(coral[1]), double(coral[2]));
  d.key_dim = 5000;
  try {
    miras::memory refused(d);
  } catch (const miras::error &e) {
    std::printf("refused: %s\n", e.what());
  }
}

void series() {
  constexpr int length = 32;
  miras::model_desc d("gated-deltanet", 1);
  d.width = 16, d.heads = 2, d.vocab = 0;
  d.set("inputs", "vector 1").set("outputs", "squared 1");
  miras::model model(d);
  miras::trainer trainer(model, {4, length, 0, 0, 0, nullptr, nullptr});
  std::array<float, 4 * length> now, next;
  const auto wave = [](int t) { return float(std::sin(0.3 * t) + std::sin(0.73 * t)); };
  for (int step = 0; step < 300; step++) {
    for (int i = 0; i < 4 * length; i++) {
      const int t = 977 * (4 * step + i / length) % 5000 + i % length;
      now[size_t(i)] = wave(t), next[size_t(i)] = wave(t + 1);
    }
    miras_batch rows = {};
    rows.batch = 4, rows.length = length, rows.vectors = now.data(), rows.values = next.data();
    const float loss = trainer.loss(rows);
    trainer.backward();
    trainer.step(3e-3f);
    if (step % 100 == 0) std::printf("step %3d, loss %.4f\n", step, double(loss));
  }
  const miras::bytes file = model.saved();
  miras::model again(d);
  again.load(file);
  miras::session session(again);
  for (int t = 10000; t < 10064; t++) {
    const float x = wave(t), said = session.feed({}, {x})[0];
    if (t >= 10060) std::printf("said %6.3f, came %6.3f\n", double(said), double(wave(t + 1)));
  }
}

}  // namespace

int main() try {
  colours();
  series();
} catch (const miras::error &e) {
  std::puts(e.what());
  return 1;
}
