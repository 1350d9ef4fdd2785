/* test_cpp.cpp: examples/cpp/miras.hpp: what it owns, views, says and refuses. Linked with the
 * library (tests/object.c), with exceptions and without:
 *   g++ -std=c++17 tests/test_cpp.cpp object.o -o test_cpp -lm -lpthread
 * Prints nothing but what is wrong; the status is the number of those. */
#define MIRAS_PTHREADS
#include "../miras.h"
#include "../examples/cpp/miras.hpp"

#include <array>

namespace {

int wrong = 0;

void expect(bool right, const char *what, int line) {
  if (right) return;
  wrong++;
  std::printf("line %d: %s\n", line, what);
}
#define EXPECT(x) expect(x, #x, __LINE__)

/* Is the call refused with this result, and a sentence that holds these words? */
template <class Call>
void refused(Call call, miras_result result, const char *words, int line) {
  miras::error e;
#if defined(__cpp_exceptions)
  try {
    call();
  } catch (const miras::error &caught) {
    e = caught;
  }
#else
  call();
  e = miras::refusal();
  miras::refusal().clear();
#endif
  expect(e.result() == result && std::strstr(e.what(), words), e.what(), line);
}
#define MOVED(call) REFUSED(call, MIRAS_ERR_ARGUMENT, "moved from")
#define REFUSED(call, result, words) refused([&] { call; }, result, words, __LINE__)

bool near(float a, float b, float by = 1e-3f) { return std::fabs(a - b) < by; }

template <class T> constexpr bool only_moves() {
  return !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
         std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;
}
static_assert(only_moves<miras::memory>() && only_moves<miras::model>() &&
              only_moves<miras::session>() && only_moves<miras::server>() &&
              only_moves<miras::trainer>() && only_moves<miras::pool>());
static_assert(!std::is_convertible_v<std::array<double, 2>, miras::floats>);
static_assert(!std::is_convertible_v<const std::array<float, 2>, miras::span<float>>);

void descriptors() {
  miras::memory_desc d(MIRAS_PRESET_DELTANET);
  d.set("key_dim", 4).set("value_dim", "1").set("learning_rate", 0.5);
  EXPECT(d.key_dim == 4 && d.value_dim == 1 && near(d.learning_rate, 0.5f));
  EXPECT(d.get("key_dim") == "4" && d.get("bias") == "l2");
  std::string said;
  d.change("bias", "dot", &said);
  EXPECT(d.bias == MIRAS_BIAS_DOT);
  EXPECT(said.find("step_bound") != std::string::npos);
  REFUSED(d.set("lerning_rate", 1), MIRAS_ERR_ARGUMENT,
          "no field lerning_rate; is it learning_rate?");
  REFUSED(d.set("bias", "l3"), MIRAS_ERR_ARGUMENT, "bias cannot be \"l3\"; it can be dot l2");
  REFUSED(miras::model_desc("yaad", 1).set("outputs", std::string(112, 'x')), MIRAS_ERR_ARGUMENT,
          "outputs has 112 characters; it must have less than 112");
  REFUSED(d.set("seed", 1), MIRAS_ERR_ARGUMENT,
          "files have no field seed; what only the struct has is set there");
  REFUSED(d.change("bais", "l2"), MIRAS_ERR_ARGUMENT, "no field bais; is it bias?");
  REFUSED(d.get("nothing"), MIRAS_ERR_ARGUMENT, "no field nothing");
  REFUSED(miras::model_desc("yaad", 1).set("chunks", 1), MIRAS_ERR_ARGUMENT,
          "is it memory.chunk?");
  REFUSED(miras::memory_desc("yad"), MIRAS_ERR_ARGUMENT, "no preset yad; is it yaad?");
  REFUSED(miras::memory_desc(""), MIRAS_ERR_ARGUMENT, "no preset ");
  d.key_dim = 5000;
  REFUSED(miras::memory m(d); EXPECT(!m), MIRAS_ERR_DESC, "key_dim is 5000");
}

void memories() {
  miras::memory_desc d("deltanet");
  d.key_dim = 3, d.value_dim = 2;
  miras::memory m(d);
  const float key[3] = {1, 0, 0};
  const std::vector<float> value = {0.5f, -2};
  const float first = m.write(key, value);
  EXPECT(near(first, 0.5f * (0.25f + 4)));
  for (int i = 0; i < 10; i++) m.write({1, 0, 0}, value);
  std::array<float, 2> out = {};
  m.read(key, out);
  EXPECT(near(out[0], 0.5f) && near(out[1], -2) && m.position() == 11);

  const miras::bytes before = m.state();
  const float surprise = m.learn({0, 1, 0}, {4, 4}, out);
  EXPECT(near(out[0], 0) && near(surprise, 16) && near(m.read({0, 1, 0})[1], 4, 0.3f));
  m.state(before);
  EXPECT(near(m.read({0, 1, 0})[1], 0) && m.position() == 11);

  miras::memory moved(std::move(m));
  EXPECT(!m && moved && near(moved.read(key)[1], -2));
  MOVED(m.write(key, value));
  MOVED(m.read(key));
  MOVED(m.learn(key, value, out));
  MOVED(m.learn(miras_memory_event()));
  MOVED(m.probabilities(value, out));
  MOVED(m.state());
  MOVED(m.state(before));
  MOVED(m.saved());
  MOVED(m.load(before));
  MOVED(m.save("nowhere/test_cpp.memory"));
  MOVED(m.load("nowhere/test_cpp.memory"));
  MOVED(m.reset());
  MOVED(m.position());
  MOVED(m.params());
  MOVED(m.desc());
  m = std::move(moved);
  REFUSED(m.write({1, 0}, value), MIRAS_ERR_ARGUMENT, "the key has 2 numbers; 3 are wanted");
  REFUSED(m.read(key, miras::span<float>()), MIRAS_ERR_ARGUMENT, "the answer has 0");
  REFUSED(m.state(miras::bytes(3)), MIRAS_ERR_ARGUMENT, "the state has 3 bytes; ");
  REFUSED(m.probabilities(value, out), MIRAS_ERR_DESC, "bias is cross-entropy");

  miras::bytes file = m.saved();
  miras::memory other(d);
  other.load(file);
  EXPECT(near(other.read(key)[1], -2));
  file[file.size() / 2] ^= 1;
  REFUSED(other.load(file), MIRAS_ERR_FORMAT, "");
  const std::string path = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") +
                           "/test_cpp.memory";
  m.save(path);
  miras::memory opened = miras::memory::open(path);
  EXPECT(opened.desc()->value_dim == 2 && near(opened.read(key)[0], 0.5f));
  other.reset();
  other.load(path);
  EXPECT(near(other.read(key)[0], 0.5f));
  d.key_dim = 4;
  miras::memory wider(d);
  REFUSED(wider.load(path), MIRAS_ERR_MISMATCH, "test_cpp.memory: key_dim");
  std::remove(path.c_str());
  REFUSED(miras::memory::open(path), MIRAS_ERR_IO, "test_cpp.memory: a file could not");
  REFUSED(m.save(path + "/a"), MIRAS_ERR_IO, "test_cpp.memory/a: a file could not");
  REFUSED(m.load("/" + std::string(5000, 'b') + "/c"), MIRAS_ERR_IO, "bb/c: a file could not");
  other.params()[0] = 7, other.reset();
  EXPECT(other.params().size() == 6 && near(other.read(key)[0], 7));
}

/* Memories that cannot learn by every call say what keeps them from it. */
void unable() {
  std::array<float, 4> four = {};
  miras::memory_desc erases("rwkv7");
  erases.key_dim = 2, erases.value_dim = 2;
  miras::memory by_tokens(erases);
  REFUSED(by_tokens.write({1, 0}, {1, 0}), MIRAS_ERR_DESC, "comes with tokens");
  miras::memory_desc twice("deltaproduct");
  twice.key_dim = 2, twice.value_dim = 2;
  miras::memory pairs(twice);
  EXPECT(pairs.desc()->inner_steps == 2 && pairs.write(four, four) == 0);
  REFUSED(pairs.learn({1, 0}, {1, 0}, miras::span<float>(four.data(), 2)), MIRAS_ERR_DESC,
          "inner_steps is 2");
}

void words() {
  miras::model_desc d("gated-deltanet", 1);
  d.vocab = 4, d.width = 16, d.heads = 2;
  miras::model first(d);
  miras::model model(std::move(first));
  MOVED(first.row());
  MOVED(first.desc());
  MOVED(first.state_size());
  MOVED(first.params());
  MOVED(first.standardize({}));
  MOVED(first.predict({}));
  MOVED(miras::session{first});
  MOVED(miras::server{first});
  MOVED(miras::trainer(first, {2, 8, 0, 0, 0, nullptr, nullptr}));
  miras::pool pool(2), other_pool(std::move(pool));
  MOVED(pool.parallel());
  miras::trainer other(model, {2, 8, 0, 0, 0, other_pool.parallel(), nullptr});
  miras::trainer trainer(std::move(other));
  std::vector<int32_t> tokens(16), targets(16);
  for (size_t i = 0; i < 16; i++) tokens[i] = int32_t(i % 4), targets[i] = int32_t((i + 1) % 4);
  const float before = trainer.loss(tokens, targets, 8, false);
  for (int i = 0; i < 60; i++) {
    trainer.loss(tokens, targets, 8);
    trainer.backward();
    EXPECT(trainer.step(0.01f) > 0);
  }
  EXPECT(near(before, std::log(4.0f), 0.7f) && trainer.loss(tokens, targets, 8, false) < 0.1f);
  EXPECT(trainer.steps() == 60);
  REFUSED(trainer.backward(), MIRAS_ERR_STATE, "");
  REFUSED(trainer.loss(tokens, targets, 5), MIRAS_ERR_ARGUMENT,
          "tokens has 16 numbers; rows of 5 are wanted");
  REFUSED(trainer.loss(tokens, targets, 0), MIRAS_ERR_ARGUMENT,
          "length is 0; it must lie in 1..8");
  REFUSED(trainer.loss(tokens, targets, 4), MIRAS_ERR_ARGUMENT,
          "batch is 4; it must lie in 1..2");
  REFUSED(trainer.loss(miras_batch()), MIRAS_ERR_ARGUMENT, "length is 0; it must");
  MOVED(other.loss(tokens, targets, 8));
  MOVED(other.loss(miras_batch()));
  MOVED(other.backward());
  MOVED(other.step(0.01f));
  MOVED(other.steps());
  REFUSED(trainer.step(NAN), MIRAS_ERR_ARGUMENT, "");
  const miras::bytes kept = trainer.saved();
  trainer.load(kept);

  miras::session session(model);
  for (int32_t token = 0; token < 4; token++) session.step(token);
  const miras::floats said = session.step(0);
  EXPECT(said.size() == 4 && said[1] > said[0] && said[1] > said[2] && said[1] > said[3]);
  std::vector<float> now(said.begin(), said.end());
  model.predict(now);
  EXPECT(near(now[0] + now[1] + now[2] + now[3], 1) && now[1] > 0.8f);
  REFUSED(model.predict({now.data(), 3}), MIRAS_ERR_ARGUMENT,
          "outputs has 3 numbers; rows of 4 are wanted");
  REFUSED(model.standardize(now), MIRAS_ERR_ARGUMENT, "no input of this model is standardized");
  REFUSED(session.step(4), MIRAS_ERR_ARGUMENT, "");
  REFUSED(session.learn({}, {}), MIRAS_ERR_ARGUMENT, "classes has 0 numbers; 1");
  REFUSED(session.load(miras::bytes(9)), MIRAS_ERR_FORMAT, "");

  /* a server goes on from the session's state, to its bits */
  std::vector<float> state((model.state_size() + 3) / 4), logits(4);
  const miras::bytes from = session.state();
  EXPECT(from.size() == model.state_size());
  std::memcpy(state.data(), from.data(), from.size());
  miras::server server(model);
  const int32_t token = 1;
  const miras_sequence text = {state.data(), &token, 1, 1, nullptr, nullptr, nullptr};
  server.feed({&text, 1}, logits);
  const miras::floats next = session.step(1);
  EXPECT(!std::memcmp(next.data(), logits.data(), 4 * sizeof(float)));
  REFUSED(server.feed({&text, 1}, miras::span<float>(logits.data(), 3)),
          MIRAS_ERR_ARGUMENT, "the room for logits has 3 numbers; 4");
  miras::session moved(std::move(session));
  miras::server gone(std::move(server));
  MOVED(session.step(1));
  MOVED(session.feed({&token, 1}, {}));
  MOVED(session.learn({&token, 1}, {}));
  MOVED(session.reset());
  MOVED(session.position());
  MOVED(session.state());
  MOVED(server.feed({&text, 1}, logits));
}

void rows() {
  miras::model_desc d("gated-deltanet", 1);
  d.vocab = 0, d.width = 8, d.heads = 1;
  d.set("inputs", "standardized 2").set("outputs", "squared 1").set("adapt.learning_rate", 1);
  d.set("adapt.hidden", 1);
  miras::model model(d);
  EXPECT(model.row().vectors == 2 && model.row().values == 1);
  REFUSED(model.standardize({1, 10, 3, 20, 5, 30, 7}), MIRAS_ERR_ARGUMENT,
          "vectors has 7 numbers; rows of 2 are wanted");
  model.standardize({1, 10, 3, 20, 5, 30});
  miras::session session(model);
  float first = 0, last = 0;
  for (int t = 0; t < 200; t++) {
    last = session.feed({}, {3, 25})[0] - 5;
    if (!t) first = last;
    session.learn({}, {5});
  }
  EXPECT(std::fabs(first) > 1 && std::fabs(last) < 0.2f && session.position() == 200);
  REFUSED(session.feed({}, {1}), MIRAS_ERR_ARGUMENT, "vectors has 1 numbers; 2");
  std::vector<float> vectors(8, 1), values(4, 1);
  miras_batch batch = {};
  batch.batch = 1, batch.length = 4, batch.vectors = vectors.data(), batch.values = values.data();
  miras::trainer trainer(model, {1, 4, 0, 0, 0, nullptr, nullptr});
  const float loss = trainer.loss(batch);
  trainer.backward(), trainer.step(0.01f);
  EXPECT(trainer.loss(batch, false) < loss);
  REFUSED(miras::trainer(model, {1, 0, 0, 0, 0, nullptr, nullptr}), MIRAS_ERR_DESC, "context");
}

}  // namespace

int main() {
  descriptors();
  memories();
  unable();
  words();
  rows();
  return wrong;
}
