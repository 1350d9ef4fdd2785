// test_csharp.cs: examples/csharp/Runtime/Miras.cs over the shared library of examples/shared:
//   mcs -unsafe examples/csharp/Runtime/Miras.cs tests/test_csharp.cs -out:test.exe
//   LD_LIBRARY_PATH=FOLDER mono test.exe FOLDER
// Prints what is wrong; the status is the number of those.
using System;
using System.IO;
using Miras;

static class Test {
  static int wrong;
  static void Expect(bool right, string what) {
    if (right) return;
    wrong++;
    Console.WriteLine(what);
  }
  static void Refused(Action call, int result, string words) {
    try {
      call();
      Expect(false, "not refused: " + words);
    } catch (MirasException e) {
      Expect(e.Result == result && e.Message.Contains(words), e.Result + " " + e.Message);
    }
  }
  static bool Near(float a, float b, float by = 1e-3f) { return Math.Abs(a - b) < by; }

  static void Memories(string folder) {
    var d = new MemoryDesc("deltanet").Set("key_dim", 3).Set("value_dim", 2).Set("heads", 2);
    float[] key = { 1, 0, 0, 0, 1, 0 }, value = { 0.5f, -2, 3, 4 }, answer = new float[4];
    string path = Path.Combine(folder, "\u00e9t\u00e9.memory");
    using (var m = new Memory(d)) {
      Expect(m.KeySize == 6 && m.ValueSize == 4, "sizes");
      Expect(Near(m.Write(key, value), (0.25f + 4 + 9 + 16) / 4), "the first surprise");
      for (int i = 0; i < 10; i++) m.Write(key, value);
      byte[] state = m.State;
      float surprise = m.Learn(key, new float[] { 9, 9, 9, 9 }, answer);
      Expect(Near(answer[1], -2) && Near(answer[3], 4) && surprise > 10, "learn answers first");
      m.Read(key, answer);
      Expect(Near(answer[1], 9, 1), "and then learns");
      m.State = state;
      m.Read(key, answer);
      Expect(Near(answer[1], -2) && m.Position == 11, "rolled back");
      Refused(() => m.Write(answer, value), 1, "the key has 4 numbers; 6 are wanted");
      Refused(() => m.State = new byte[5], 1, "the state has 5 bytes; ");
      Refused(() => m.Probabilities(answer, answer), 2, "bias is cross-entropy");
      Refused(() => m.Learn(key, value, answer, 2.5f), 1, "elapsed is 2.5; ");   // it has no decay
      m.Save(path);
      m.Reset();
      m.Read(key, answer);
      Expect(Near(answer[1], 0), "reset");
      m.Load(path);
      m.Read(key, answer);
      Expect(Near(answer[2], 3), "loaded");
    }
    using (var m = Memory.Open(path)) {
      m.Read(key, answer);
      Expect(m.QuerySize == 6 && Near(answer[0], 0.5f), "opened");
    }
    using (var m = new Memory(d.Set("key_dim", 4)))
      Refused(() => m.Load(path), 7, path + ": key_dim");
    File.WriteAllBytes(path, new byte[100]);
    Refused(() => Memory.Open(path), 6, path + ": ");
    File.Delete(path);
    Refused(() => Memory.Open(path), 5, path + ": ");
    using (var m = new Memory(d))
      Refused(() => m.Save(Path.Combine(path, "a")), 5, Path.Combine(path, "a") + ": ");
    Refused(() => new MemoryDesc("yad"), 1, "no preset yad; is it yaad?");
    Refused(() => new MemoryDesc(null), 1, "no preset ");
    Refused(() => d.Set("lerning_rate", 1), 1, "no field lerning_rate; is it learning_rate?");
    Refused(() => d.Set("bias", "l3"), 1, "bias cannot be \"l3\"; it can be dot l2");
    Refused(() => d.Set("groups", new string('1', 32)), 1, "groups has 32 characters; it must");
    Refused(() => d.Set("seed", 1), 1, "files have no field seed");
    Refused(() => new ModelDesc("yaad", 1).Set("chunks", 1), 1, "is it memory.chunk?");
    using (var m = new Memory(new MemoryDesc("rwkv7").Set("key_dim", 1).Set("value_dim", 1)))
      Refused(() => m.Write(new float[1], new float[1]), 2, "comes with tokens");
    using (var m = new Memory(new MemoryDesc("deltaproduct").Set("key_dim", 1).Set("value_dim", 1)))
      Refused(() => m.Learn(new float[1], new float[1], new float[1]), 2, "inner_steps is 2");
    var c = new MemoryDesc("categories").Set("key_dim", 2).Set("value_dim", 3);
    using (var m = new Memory(c)) {
      var p = new float[3];
      for (int i = 0; i < 50; i++) m.Write(new float[] { 1, 0 }, new float[] { 0, 1, 0 });
      m.Read(new float[] { 1, 0 }, p);
      m.Probabilities(p, p);
      Expect(p[1] > 0.8f && Near(p[0] + p[1] + p[2], 1), "probabilities");
    }
  }

  // A network learns to add two numbers and name the larger; its head learns more while it runs.
  static void Models(string folder) {
    var d = new ModelDesc("gated-deltanet", 1).Set("width", 16).Set("vocab", 0).Set("seed", 3);
    d.Set("inputs", "vector 2").Set("outputs", "squared 1, category 2");
    d.Set("adapt.learning_rate", 1).Set("adapt.hidden", 1);
    const int rows = 32;
    float[] x = new float[2 * rows], y = new float[rows], said = new float[3];
    var larger = new int[rows];
    uint random = 1;
    string path = Path.Combine(folder, "sum.safetensors"), text = path + ".session";
    float first = 0, last = 0;
    using (var model = new Model(d)) {
      Expect(model.Vectors == 2 && model.Outputs == 3 && model.Classes == 1, "a row");
      using (var trainer = new Trainer(model, 4, rows / 4)) {
        for (int step = 0; step < 200; step++) {
          for (int i = 0; i < rows; i++) {
            for (int j = 0; j < 2; j++) {
              random = random * 1664525 + 1013904223;
              x[2 * i + j] = (random >> 8) / 8388608f - 1;
            }
            y[i] = x[2 * i] + x[2 * i + 1];
            larger[i] = x[2 * i] > x[2 * i + 1] ? 0 : 1;
          }
          last = trainer.Loss(4, rows / 4, null, x, larger, y);
          if (step == 0) first = last;
          trainer.Step(0.01f, 0.01f, 1);
        }
        Refused(() => trainer.Loss(4, 7, null, x, larger, y), 1, "vectors has 64");
        Refused(() => trainer.Loss(4, 0, null, x, larger, y), 1, "length is 0; it must lie in 1..");
        Refused(() => trainer.Loss(5, 8, null, x, larger, y), 1, "batch is 5; it must lie in 1..4");
        Refused(() => trainer.Step(0.01f), 8, "not possible");
      }
      Expect(first > 0.6f && last < 0.2f, "trained from " + first + " to " + last);
      Refused(() => model.Standardize(new float[3]), 1, "vectors has 3 numbers; rows of 2");
      Refused(() => model.Standardize(x), 1, "no input of this model is standardized");
      model.Save(path);
    }
    Session running;
    using (var model = Model.Open(path)) running = new Session(model);
    GC.Collect();                    // the model lives as long as its session
    GC.WaitForPendingFinalizers();
    using (running) {
      running.Feed(null, new[] { 0.5f, 0.25f }, said);
      Expect(Near(said[0], 0.75f, 0.25f) && said[1] > said[2], "the sum and the larger");
      byte[] state = running.State;
      float before = Math.Abs(said[0] - 2);
      for (int i = 0; i < 60; i++) {
        running.Feed(null, new[] { 0.5f, 0.25f }, said);
        running.Learn(new[] { 0 }, new[] { 2f });
      }
      Expect(Math.Abs(said[0] - 2) < 0.3f * before, "the head learns: " + said[0]);
      running.Save(text);
      running.State = state;
      running.Feed(null, new[] { 0.5f, 0.25f }, said);
      Expect(Math.Abs(said[0] - 2) > 0.7f * before, "and is rolled back: " + said[0]);
      running.Load(text);
      running.Feed(null, new[] { 0.5f, 0.25f }, said);
      Expect(Math.Abs(said[0] - 2) < 0.3f * before, "and loaded: " + said[0]);
      Refused(() => running.Feed(new int[1], x, said), 1, "tokens has 1 numbers; 0");
    }
    File.Delete(path);
    File.Delete(text);
    Refused(() => new Model(new ModelDesc("yaad", 1)), 2, "vocab is 0");
  }

  // Neither a trainer that is refused nor one that is closed keeps its model: a closed model's
  // pages are given back, 60 models of 16 MB each.
  static void GivenBack() {
    var d = new ModelDesc("gated-deltanet", 1).Set("width", 512).Set("vocab", 4096);
    for (int i = 0; i < 60; i++) {
      using (var model = new Model(d)) {
        Refused(() => new Trainer(model, 1, 0), 2, "context is 0");
        new Session(model).Dispose();
      }
    }
    if (!File.Exists("/proc/self/statm")) return;
    long pages = long.Parse(File.ReadAllText("/proc/self/statm").Split(' ')[1]);
    Expect(pages < 65536, "more than 256 MB are still held: " + pages + " pages");
  }

  static int Main(string[] arguments) {
    Memories(arguments[0]);
    Models(arguments[0]);
    GivenBack();
    return wrong;
  }
}
