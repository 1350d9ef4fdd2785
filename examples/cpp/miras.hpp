/* miras.hpp: miras.h for C++17: objects that own, views with sizes, refusals as exceptions.
 *
 *     miras::memory_desc d("yaad");                 // a preset by its name or its enumerator
 *     d.key_dim = 8, d.value_dim = 2;               // fields of the C struct ...
 *     d.set("learning_rate", 0.5).set("bias", "l2"); // ... or by the names that files have
 *     miras::memory m(d);                           // throws miras::error: the library's sentence
 *     float surprise = m.write(key, value);         // arrays, std::array, std::vector, {1, 2}
 *     std::vector<float> answer = m.read(query);
 *     m.save("words.memory");
 *     miras::memory again = miras::memory::open("words.memory");
 *
 * Include it behind miras.h, which one source file, C++ or C, has with MIRAS_IMPLEMENTATION.
 * Objects can be moved and not copied; one that was moved from is false, and its calls are refused
 * (get() is NULL). None has a default constructor: std::optional holds one that comes later.
 * A model must outlive its trainers, sessions and servers, and may move. A span that a call takes
 * is checked for its size and not kept; one that it returns lives as the manual of miras.h says.
 * In C's own structs, events, sequences and batches, nobody checks what pointers lead to.
 * get() is the C object, for all calls that are not here.
 *
 * Without exceptions (-fno-exceptions, or MIRAS_HPP_NO_EXCEPTIONS) a refusal is kept instead: a
 * constructor leaves an object that is false, other calls return nothing, zeros or NaN, and
 * miras::refusal() has the first one of this thread until it is cleared:
 *
 *     miras::memory m(d);
 *     if (!m) puts(miras::refusal().what());
 *     miras::refusal().clear();
 *
 * The licence is that of miras.h. */
#ifndef MIRAS_HPP
#define MIRAS_HPP

#ifndef MIRAS_H
  #include "miras.h"
#endif
#if defined(MIRAS_NO_MODEL) || defined(MIRAS_NO_TRAINING) || defined(MIRAS_NO_STDIO)
  #error "miras.hpp is over all of miras.h: models, training, files"
#endif
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace miras {

/* ---- refusals ---- */

/* A result that is not MIRAS_OK and its sentence. */
class error : public std::exception {
 public:
  error() = default;
  error(miras_result result, const char *sentence) : result_(result) {
    std::strncat(text_, sentence, sizeof text_ - 1);
  }
  const char *what() const noexcept override { return text_; }
  miras_result result() const noexcept { return result_; }
  explicit operator bool() const noexcept { return result_ != MIRAS_OK; }
  void clear() noexcept { *this = error(); }

 private:
  miras_result result_ = MIRAS_OK;
  char text_[1024] = "";
};

#if defined(__cpp_exceptions) && !defined(MIRAS_HPP_NO_EXCEPTIONS)
[[noreturn]] inline void refuse(miras_result result, const char *sentence) {
  throw error(result, sentence);
}
#else
inline error &refusal() {
  static thread_local error first;
  return first;
}
inline void refuse(miras_result result, const char *sentence) {
  if (!refusal()) refusal() = error(result, sentence);
}
#endif

/* Was it MIRAS_OK? If not, it is refused with why, or with the result's own sentence. */
inline bool check(miras_result result, const char *why = "") {
  if (result != MIRAS_OK) refuse(result, *why ? why : miras_result_text(result));
  return result == MIRAS_OK;
}
inline bool check_size(const char *what, size_t has, size_t wants, const char *of = "numbers") {
  char why[128];
  if (has == wants) return true;
  std::snprintf(why, sizeof why, "%s has %zu %s; %zu are wanted", what, has, of, wants);
  return check(MIRAS_ERR_ARGUMENT, why);
}
inline bool check_rows(const char *what, size_t has, size_t width) {
  char why[128];
  if (has % width == 0) return true;
  std::snprintf(why, sizeof why, "%s has %zu numbers; rows of %zu are wanted", what, has, width);
  return check(MIRAS_ERR_ARGUMENT, why);
}
inline bool check_range(const char *what, long long is, int most) {
  char why[128];
  if (is >= 1 && is <= most) return true;
  std::snprintf(why, sizeof why, "%s is %lld; it must lie in 1..%d", what, is, most);
  return check(MIRAS_ERR_ARGUMENT, why);
}

/* ---- views ---- */

/* Numbers of somebody else's, of anything that has data and size. */
template <class T> class span {
 public:
  span() = default;
  span(T *data, size_t size) : data_(data), size_(size) {}
  template <class C, class = std::enable_if_t<
                         std::is_convertible_v<decltype(std::data(std::declval<C &>())), T *>>>
  span(C &&from) : data_(std::data(from)), size_(std::size(from)) {}
  template <class U = T, class = std::enable_if_t<std::is_const_v<U>>>   /* for a call's time */
  span(const std::initializer_list<std::remove_const_t<T>> &list)
      : data_(std::data(list)), size_(list.size()) {}
  T *data() const { return data_; }
  size_t size() const { return size_; }
  T *begin() const { return data_; }
  T *end() const { return data_ + size_; }
  T &operator[](size_t i) const { return data_[i]; }

 private:
  T *data_ = nullptr;
  size_t size_ = 0;
};
using floats = span<const float>;
using bytes = std::vector<unsigned char>;

/* ---- what the classes below share ---- */

namespace detail {
/* As check, with the file that it is about, of a long path the end. */
inline bool check_file(miras_result result, const std::string &path, const char *why) {
  if (result == MIRAS_OK) return true;
  const std::string end = path.size() < 512 ? path : "..." + path.substr(path.size() - 509);
  return check(result, (end + ": " + (*why ? why : miras_result_text(result))).c_str());
}
/* Letters that are changed, left out or put in between two words. */
inline size_t edits(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); j++) row[j] = j;
  for (size_t i = 0; i < a.size(); i++) {
    size_t before = row[0]++;
    for (size_t j = 0; j < b.size(); j++) {
      const size_t change = before + (a[i] != b[j]);
      before = row[j + 1];
      row[j + 1] = std::min(change, std::min(row[j], before) + 1);
    }
  }
  return row[b.size()];
}
/* "; is it NAME?" of the one of name(0), name(1), .. that is nearest, as a whole or behind its last
 * dot; "" where more edits than a third of the letters and one lead to each. */
template <class Name> std::string nearest(const std::string &word, Name name) {
  size_t least = std::min(word.size(), word.size() / 3 + 2);
  std::string found;
  for (int i = 0; const char *is = name(i); i++) {
    const std::string whole = is;
    const std::string last = whole.substr(whole.rfind('.') + 1);
    const size_t wrong = std::min(edits(word, whole), edits(word, last));
    if (wrong < least) least = wrong, found = "; is it " + whole + "?";
  }
  return found;
}
/* An object of the C library, with those of its calls that several kinds of objects have. */
template <class T, auto Open, auto State = nullptr, auto OpenFile = nullptr,
          auto Close = miras_close>
class owner {
 public:
  T *get() const { return p_.get(); }
  explicit operator bool() const { return p_ != nullptr; }

  /* The state, flat: a copy out, and back in (memories, sessions). */
  bytes state() const {
    size_t size = 0;
    const auto *from = static_cast<const unsigned char *>(State(the(), &size));
    return bytes(from, from + size);
  }
  void state(const bytes &from) {
    size_t size = 0;
    void *to = State(the(), &size);
    if (to && check_size("the state", from.size(), size, "bytes"))
      std::memcpy(to, from.data(), size);
  }
  /* Files, in memory and at a path. */
  bytes saved() const {
    bytes to(miras_save_to(the(), nullptr, 0));
    if (check(to.empty() ? MIRAS_ERR_STATE : MIRAS_OK)) miras_save_to(get(), to.data(), to.size());
    return to;
  }
  void load(const bytes &from) {
    char why[256] = "";
    check(miras_load_from(the(), from.data(), from.size(), why, sizeof why), why);
  }
  void save(const std::string &path) const {
    check_file(miras_save(the(), path.c_str()), path, "");
  }
  void load(const std::string &path) {
    char why[256] = "";
    check_file(miras_load(the(), path.c_str(), why, sizeof why), path, why);
  }

 protected:
  owner() = default;
  template <class... From> void make(From... from) {
    char why[256] = "";
    p_.reset(Open(from..., nullptr, why, sizeof why));
    if (!p_) check(MIRAS_ERR_DESC, why);
  }
  template <class D> void make_from(const std::string &path, const D *given) {
    char why[256] = "";
    miras_result result = MIRAS_ERR_ALLOC;
    p_.reset(OpenFile(path.c_str(), given, nullptr, &result, why, sizeof why));
    if (!p_) check_file(result, path, why);
  }
  /* The object that a call is for; NULL is refused. */
  T *the() const {
    check(p_ ? MIRAS_OK : MIRAS_ERR_ARGUMENT, "there is no object: it was moved from or refused");
    return get();
  }
  bool fits(const char *what, size_t has, size_t wants) const {
    return the() && check_size(what, has, wants);
  }

 private:
  struct closer {
    void operator()(T *p) const { Close(p); }
  };
  std::unique_ptr<T, closer> p_;
};
inline size_t count(int n) { return static_cast<size_t>(n); }
}  // namespace detail

/* ---- descriptors ---- */

/* The C struct filled with a preset, by enumerator or name; a model's takes its layers besides. */
template <class D, auto Fill, auto Set, auto Change, auto Get, auto Field>
class desc : public D {
 public:
  template <class... Layers> explicit desc(miras_preset preset, Layers... layers) : D() {
    check(Fill(this, preset, layers...));
  }
  template <class... Layers> explicit desc(const char *name, Layers... layers) : D() {
    const miras_preset preset = miras_preset_find(name);
    const miras_result found = preset == MIRAS_PRESET_COUNT ? MIRAS_ERR_ARGUMENT : MIRAS_OK;
    const std::string word = name ? name : "";
    const auto other = [](int i) { return miras_preset_name(static_cast<miras_preset>(i)); };
    if (found == MIRAS_OK) check(Fill(this, preset, layers...));
    else check(found, ("there is no preset " + word + detail::nearest(word, other)).c_str());
  }
  /* A field by its name in files, which seed, limit, parallel and custom of a memory do not have;
   * value is a number or text, an enumeration's word too. */
  desc &set(const char *field, const std::string &value) {
    const miras_result result = Set(this, field, value.c_str());
    char text[512] = "";
    if (result == MIRAS_OK || !there_is(field)) return *this;
    Change(this, field, value.c_str(), text, sizeof text);   /* which refuses it, and says why */
    check(result, text);
    return *this;
  }
  desc &set(const char *field, double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return set(field, std::string(text));
  }
  /* The same, and what belonged to the old value gives way; said receives what else changed. */
  desc &change(const char *field, const std::string &value, std::string *said = nullptr) {
    char text[512] = "";
    if (!there_is(field)) return *this;
    if (check(Change(this, field, value.c_str(), text, sizeof text), text) && said) *said = text;
    return *this;
  }
  std::string get(const char *field) const {
    char text[MIRAS_PATTERN_SIZE];
    return there_is(field) ? Get(this, field, text, sizeof text) : "";
  }

 private:
  bool there_is(const char *field) const {
    char text[MIRAS_PATTERN_SIZE];
    if (Get(this, field, text, sizeof text)) return true;
    const std::string word = field ? field : "", near = detail::nearest(word, Field);
    return check(MIRAS_ERR_ARGUMENT, ("files have no field " + word +
                 (near.empty() ? "; what only the struct has is set there" : near)).c_str());
  }
};
using memory_desc = desc<miras_memory_desc, miras_memory_preset, miras_memory_desc_set,
                         miras_memory_desc_change, miras_memory_desc_get, miras_memory_desc_field>;
using model_desc = desc<miras_model_desc, miras_model_preset, miras_model_desc_set,
                        miras_model_desc_change, miras_model_desc_get, miras_model_desc_field>;

/* ---- one memory ---- */

class memory
    : public detail::owner<miras_memory, miras_memory_open, miras_memory_state,
                           miras_memory_open_file> {
 public:
  explicit memory(const miras_memory_desc &d) { make(&d), measure(); }
  static memory open(const std::string &path, const miras_memory_desc *given = nullptr) {
    memory m;
    m.make_from(path, given), m.measure();
    return m;
  }
  const miras_memory_desc *desc() const { return miras_memory_desc_of(the()); }

  /* Learns a pair, key [batch, heads, inner_steps, key_dim] and value [batch, heads, inner_steps,
   * value_dim]; how surprised it was: the descriptor's bias (l2: half the squared distance) between
   * the value and the answer before, the mean over batch and heads. */
  float write(floats key, floats value) {
    float surprise = NAN;
    if (fits("the key", key.size(), keys_) && fits("the value", value.size(), values_))
      check_write(miras_memory_write(the(), key.data(), value.data(), &surprise));
    return surprise;
  }
  /* query [batch, heads, key_dim], the answer [batch, heads, value_dim] */
  void read(floats query, span<float> out) {
    if (fits("the query", query.size(), queries_) && fits("the answer", out.size(), answers_))
      check(miras_memory_read(the(), query.data(), out.data()));
  }
  std::vector<float> read(floats query) {
    std::vector<float> out(answers_);
    read(query, out);
    return out;
  }
  /* Answers a key [batch, heads, key_dim], then learns its value; inner_steps must be 1. An event
   * has sparse keys and elapsed time besides. */
  float learn(floats key, floats value, span<float> answer) {
    float surprise = NAN;
    if (fits("the key", key.size(), queries_) && fits("the value", value.size(), answers_) &&
        fits("the answer", answer.size(), answers_))
      learn({key.data(), nullptr, nullptr, 0, value.data(), nullptr, answer.data(), &surprise});
    return surprise;
  }
  void learn(const miras_memory_event &e) { check_write(miras_memory_learn(the(), &e)); }
  /* An answer of a memory of bias cross-entropy becomes probabilities; both may be one array. */
  void probabilities(floats answer, span<float> to) const {
    if (fits("the answer", answer.size(), answers_) && fits("the room", to.size(), answers_))
      check(miras_memory_probabilities(the(), answer.data(), to.data()),
            "probabilities are of memories whose bias is cross-entropy");
  }
  void reset() { miras_memory_reset(the()); }
  uint64_t position() const { return miras_memory_position(the()); }
  span<float> params() {
    size_t size = 0;
    float *p = miras_memory_params(the(), &size);
    return {p, size};
  }

 private:
  memory() = default;
  /* A descriptor that cannot learn so: which field of it, and what is allowed. */
  void check_write(miras_result result) {
    char why[256] = "";
    if (result == MIRAS_ERR_DESC && miras_memory_can_write(get(), why, sizeof why))
      std::snprintf(why, sizeof why, "inner_steps is %d; to learn by events it must be 1",
                    desc()->inner_steps);
    check(result, why);
  }
  void measure() {
    if (!get()) return;
    queries_ = detail::count(desc()->batch) * detail::count(desc()->heads);
    answers_ = queries_ * detail::count(desc()->value_dim);
    queries_ *= detail::count(desc()->key_dim);
    keys_ = queries_ * detail::count(desc()->inner_steps);
    values_ = answers_ * detail::count(desc()->inner_steps);
  }
  size_t keys_ = 0, values_ = 0, queries_ = 0, answers_ = 0;
};

/* ---- models, and what runs and trains them ---- */

class model
    : public detail::owner<miras_model, miras_model_open, nullptr, miras_model_open_file> {
 public:
  explicit model(const miras_model_desc &d) { make(&d); }
  static model open(const std::string &path, const miras_model_desc *given = nullptr) {
    model m;
    m.make_from(path, given);
    return m;
  }
  const miras_model_desc *desc() const { return miras_model_desc_of(the()); }
  miras_row row() const { return the() ? *miras_model_row(get()) : miras_row(); }
  size_t state_size() const { return miras_model_state_size(the()); }
  span<float> params() {
    size_t size = 0;
    float *p = miras_model_params(the(), &size);
    return {p, size};
  }
  /* Means and deviations of inputs "standardized", before training: [rows, vectors]. */
  void standardize(floats vectors) {
    const size_t width = detail::count(row().vectors);
    if (!width || check_rows("vectors", vectors.size(), width))
      check(miras_model_standardize(the(), vectors.data(), width ? vectors.size() / width : 0),
            "no input of this model is standardized");
  }
  /* Outputs [rows, outputs] become what they say: probabilities, deviations. */
  void predict(span<float> outputs) const {
    const size_t width = detail::count(row().outputs);
    if (the() && check_rows("outputs", outputs.size(), width))
      miras_model_predict(the(), outputs.data(), outputs.size() / width);
  }

 private:
  model() = default;
};

/* A running text, or a running series of rows. */
class session
    : public detail::owner<miras_session, miras_session_open, miras_session_state> {
 public:
  explicit session(const model &m, const miras_session_desc &d = {}) : row_(m.row()) {
    make(m.get(), &d);
  }
  /* Outputs after the last row, until the next call. */
  floats step(int32_t token) { return outputs(miras_session_step(the(), token)); }
  /* tokens [rows, tokens] and vectors [rows, vectors], empty where the model reads none */
  floats feed(span<const int32_t> tokens, floats vectors, size_t rows = 1) {
    const bool whole = fits("tokens", tokens.size(), rows * detail::count(row_.tokens)) &&
                       fits("vectors", vectors.size(), rows * detail::count(row_.vectors));
    return whole ? outputs(miras_session_feed(the(), tokens.data(), vectors.data(), rows))
                 : floats();
  }
  /* What came of the last row, for a head that learns. */
  void learn(span<const int32_t> classes, floats values) {
    if (fits("classes", classes.size(), detail::count(row_.classes)) &&
        fits("values", values.size(), detail::count(row_.values)))
      check(miras_session_learn(the(), classes.data(), values.data()));
  }
  void reset() { miras_session_reset(the()); }
  uint64_t position() const { return miras_session_position(the()); }

 private:
  floats outputs(const float *p) const {
    return check(p ? MIRAS_OK : MIRAS_ERR_ARGUMENT) ? floats(p, detail::count(row_.outputs))
                                                    : floats();
  }
  miras_row row_ = {};
};

/* Many texts at a time; each is a block of model.state_size() bytes of yours, aligned for float,
 * as a std::vector<float> is. A block of zeros is a new text. */
class server : public detail::owner<miras_server, miras_server_open> {
 public:
  explicit server(const model &m, const miras_server_desc &d = {})
      : columns_(detail::count(m.row().outputs)) { make(m.get(), &d); }
  /* logits [rows, outputs]: the rows that texts ask for, in their order */
  void feed(span<const miras_sequence> texts, span<float> logits) {
    size_t rows = 0;
    for (const miras_sequence &text : texts) rows += text.logit_rows;
    if (fits("the room for logits", logits.size(), rows * columns_))
      check(miras_server_feed(the(), texts.data(), texts.size(), logits.data()));
  }

 private:
  size_t columns_ = 0;
};

class trainer : public detail::owner<miras_trainer, miras_trainer_open> {
 public:
  trainer(model &m, const miras_trainer_desc &d) { m.row(), make(m.get(), &d); }
  /* tokens and targets [batch, length]; a target of -1 is left out. The mean loss, in nats. */
  float loss(span<const int32_t> tokens, span<const int32_t> targets, int length,
             bool train = true) {
    float out = NAN;
    const miras_trainer_desc *room = miras_trainer_desc_of(the());
    if (!room || !check_range("length", length, room->context) ||
        !check_rows("tokens", tokens.size(), detail::count(length)) ||
        !check_size("targets", targets.size(), tokens.size())) return out;
    const auto batch = static_cast<long long>(tokens.size() / detail::count(length));
    if (!check_range("batch", batch, room->batch)) return out;
    miras_batch rows{};
    rows.batch = static_cast<int>(batch), rows.length = length;
    rows.tokens = tokens.data(), rows.classes = targets.data();
    check(miras_trainer_loss(the(), &rows, train, &out));
    return out;
  }
  float loss(const miras_batch &rows, bool train = true) {
    float out = NAN;
    const miras_trainer_desc *room = miras_trainer_desc_of(the());
    if (room && check_range("length", rows.length, room->context) &&
        check_range("batch", rows.batch, room->batch))
      check(miras_trainer_loss(the(), &rows, train, &out));
    return out;
  }
  void backward() { check(miras_trainer_backward(the(), nullptr)); }
  /* One step of AdamW; the gradient's norm before clipping. */
  float step(float learning_rate, const miras_adamw_options &o = MIRAS_ADAMW(0, 0)) {
    float norm = NAN;
    check(miras_trainer_step(the(), &o, learning_rate, &norm));
    return norm;
  }
  uint64_t steps() const { return miras_trainer_steps(the()); }
};

#ifdef MIRAS_PTHREADS
/* Threads for miras_memory_desc.parallel and others; it must outlive what uses it. */
class pool : public detail::owner<const miras_parallel, miras_pool_open, nullptr, nullptr,
                                  miras_pool_close> {
 public:
  explicit pool(int threads) { make(threads); }
  const miras_parallel *parallel() const { return the(); }
};
#endif

}  // namespace miras
#endif
