// Miras.cs: miras.h for C#, over the shared library of examples/shared.
//
//     var d = new Miras.MemoryDesc("yaad").Set("key_dim", 8).Set("value_dim", 2);
//     using (var m = new Miras.Memory(d)) {
//       float surprise = m.Write(key, value);     // float[8], float[2]
//       m.Read(key, answer);
//       m.Save("pairs.memory");
//     }
//
// A descriptor begins as a preset; its fields are set by the names that files have. What the
// library refuses is a MirasException with its sentence. Calls check the lengths of arrays and
// allocate nothing, unless they return an array. An object is not for two threads at a time.
using System;
using System.Runtime.InteropServices;
using System.Text;

namespace Miras {

public sealed class MirasException : Exception {
  public readonly int Result;   // miras_result
  public MirasException(int result, string sentence) : base(sentence) { Result = result; }
}

// ---- descriptors ----

public abstract class Desc {
  internal readonly ulong[] Block;
  internal Desc(int bytes) { Block = new ulong[bytes / 8]; }
  internal static int Preset(string name) {
    int preset = Native.miras_preset_find(Native.Text(name));
    if (Native.miras_preset_name(preset) == IntPtr.Zero)
      throw new MirasException(1, "there is no preset " + name +
                                  Nearest(name, i => Native.miras_preset_name(i)));
    return preset;
  }
  internal static string Number(double value) {
    return value.ToString("R", System.Globalization.CultureInfo.InvariantCulture);
  }
  // The library's calls for a kind of descriptor.
  internal abstract int Put(byte[] field, byte[] value);
  internal abstract int Change(byte[] field, byte[] value, byte[] said);
  internal abstract IntPtr Get(byte[] field, byte[] text);
  internal abstract IntPtr Field(int i);
  internal void Put(string field, string value) {
    byte[] name = Native.Text(field);
    int result = Put(name, Native.Text(value));
    if (result == 0) return;
    var said = new byte[512];
    if (Get(name, said) == IntPtr.Zero)
      throw new MirasException(result, "files have no field " + field + Nearest(field, Field));
    Change(name, Native.Text(value), said);   // which refuses it, and says why
    throw new MirasException(result, Native.Said(said));
  }
  // Letters that are changed, left out or put in between two words.
  static int Edits(string a, string b) {
    var row = new int[b.Length + 1];
    for (int j = 0; j <= b.Length; j++) row[j] = j;
    for (int i = 0; i < a.Length; i++) {
      int before = row[0]++;
      for (int j = 0; j < b.Length; j++) {
        int change = before + (a[i] == b[j] ? 0 : 1);
        before = row[j + 1];
        row[j + 1] = Math.Min(change, Math.Min(row[j], before) + 1);
      }
    }
    return row[b.Length];
  }
  // "; is it NAME?" of the one of name(0), name(1), .. that is nearest, as a whole or behind its
  // last dot; "" where more edits than a third of the letters and one lead to each.
  static string Nearest(string word, Func<int, IntPtr> name) {
    word = word ?? "";
    int least = Math.Min(word.Length, word.Length / 3 + 2);
    string found = "";
    IntPtr at;
    for (int i = 0; (at = name(i)) != IntPtr.Zero; i++) {
      string whole = Marshal.PtrToStringAnsi(at);
      string last = whole.Substring(whole.LastIndexOf('.') + 1);
      int wrong = Math.Min(Edits(word, whole), Edits(word, last));
      if (wrong >= least) continue;
      least = wrong;
      found = "; is it " + whole + "?";
    }
    return found;
  }
}

public sealed class MemoryDesc : Desc {
  public MemoryDesc(string preset) : base(1024) {
    Native.Check(Native.miras_memory_preset(Block, Preset(preset)));
  }
  public MemoryDesc Set(string field, string value) {
    Put(field, value);
    return this;
  }
  public MemoryDesc Set(string field, double value) { return Set(field, Number(value)); }
  internal override int Put(byte[] field, byte[] value) {
    return Native.miras_memory_desc_set(Block, field, value);
  }
  internal override int Change(byte[] field, byte[] value, byte[] said) {
    return Native.miras_memory_desc_change(Block, field, value, said, (UIntPtr)said.Length);
  }
  internal override IntPtr Get(byte[] field, byte[] text) {
    return Native.miras_memory_desc_get(Block, field, text, (UIntPtr)text.Length);
  }
  internal override IntPtr Field(int i) { return Native.miras_memory_desc_field(i); }
}

public sealed class ModelDesc : Desc {
  public ModelDesc(string preset, int layers) : base(16384) {
    Native.Check(Native.miras_model_preset(Block, Preset(preset), layers));
  }
  public ModelDesc Set(string field, string value) {
    Put(field, value);
    return this;
  }
  public ModelDesc Set(string field, double value) { return Set(field, Number(value)); }
  internal override int Put(byte[] field, byte[] value) {
    return Native.miras_model_desc_set(Block, field, value);
  }
  internal override int Change(byte[] field, byte[] value, byte[] said) {
    return Native.miras_model_desc_change(Block, field, value, said, (UIntPtr)said.Length);
  }
  internal override IntPtr Get(byte[] field, byte[] text) {
    return Native.miras_model_desc_get(Block, field, text, (UIntPtr)text.Length);
  }
  internal override IntPtr Field(int i) { return Native.miras_model_desc_field(i); }
}

// ---- objects of the library ----

public abstract class Owner : SafeHandle {
  internal Owner() : base(IntPtr.Zero, true) {}
  public override bool IsInvalid { get { return handle == IntPtr.Zero; } }

  protected override bool ReleaseHandle() { Native.miras_close(handle); return true; }

  // Files: what there is of a memory, a model, a session or a trainer.
  public void Save(string path) {
    Native.Check(Native.miras_save(this, Native.Text(path)), null, path);
  }
  public void Load(string path) {
    var why = new byte[256];
    Native.Check(Native.miras_load(this, Native.Text(path), why, (UIntPtr)256), why, path);
  }

  internal void Take(IntPtr opened, int result, byte[] why, string path = null) {
    if (opened == IntPtr.Zero) Native.Check(result, why, path);
    SetHandle(opened);
  }
  internal static void Fits(string what, Array has, long wants, string of = " numbers; ") {
    int length = has == null ? 0 : has.Length;
    if (length != wants)
      throw new MirasException(1, what + " has " + length + of + wants + " are wanted");
  }
  internal static void InRange(string what, int value, int most) {
    if (value < 1 || value > most)
      throw new MirasException(1, what + " is " + value + "; it must lie in 1.." + most);
  }
  // The pointer leads into this object, which must live until the copy is made.
  internal byte[] CopyState(IntPtr state, UIntPtr size) {
    var to = new byte[(int)size];
    Marshal.Copy(state, to, 0, to.Length);
    GC.KeepAlive(this);
    return to;
  }
  internal void PutState(byte[] from, IntPtr state, UIntPtr size) {
    Fits("the state", from, (long)size, " bytes; ");
    Marshal.Copy(from, 0, state, from.Length);
    GC.KeepAlive(this);
  }
}

public sealed unsafe class Memory : Owner {
  // Of one call: heads * inner_steps * key_dim and so on, of all sequences.
  public int KeySize { get; private set; }
  public int ValueSize { get; private set; }
  public int QuerySize { get; private set; }
  public int AnswerSize { get; private set; }

  public Memory(MemoryDesc d) {
    var why = new byte[256];
    Take(Native.miras_memory_open(d.Block, IntPtr.Zero, why, (UIntPtr)256), 2, why);
    Measure();
  }
  // The memory that a file describes.
  public static Memory Open(string path) {
    var m = new Memory();
    var why = new byte[256];
    int result;
    IntPtr opened = Native.miras_memory_open_file(Native.Text(path), IntPtr.Zero, IntPtr.Zero,
                                                  out result, why, (UIntPtr)256);
    m.Take(opened, result, why, path);
    m.Measure();
    return m;
  }
  private Memory() {}
  private int Field(string name) {
    var text = new byte[32];
    if (Native.miras_memory_desc_get(Native.miras_memory_desc_of(this), Native.Text(name), text,
                                     (UIntPtr)32) == IntPtr.Zero)
      throw new MirasException(1, "there is no field " + name);
    return int.Parse(Native.Said(text));
  }
  private void Measure() {
    int heads = Field("batch") * Field("heads"), steps = Field("inner_steps");
    QuerySize = heads * Field("key_dim");
    AnswerSize = heads * Field("value_dim");
    KeySize = QuerySize * steps;
    ValueSize = AnswerSize * steps;
  }

  // A descriptor that cannot learn so: which field of it, and what is allowed.
  void CheckWrite(int result) {
    if (result == 0) return;
    var why = new byte[256];
    if (result == 2 && Native.miras_memory_can_write(this, why, (UIntPtr)256) != 0)
      why = Native.Text("inner_steps is " + Field("inner_steps") + "; for Learn it must be 1");
    Native.Check(result, why);
  }

  // Learns a pair; how surprised it was.
  public float Write(float[] key, float[] value) {
    float surprise;
    Fits("the key", key, KeySize);
    Fits("the value", value, ValueSize);
    CheckWrite(Native.miras_memory_write(this, key, value, out surprise));
    return surprise;
  }
  public void Read(float[] query, float[] answer) {
    Fits("the query", query, QuerySize);
    Fits("the answer", answer, AnswerSize);
    Native.Check(Native.miras_memory_read(this, query, answer));
  }
  // Answers a key, then learns its value after a time that counts as so many writes. inner_steps
  // must be 1.
  public float Learn(float[] key, float[] value, float[] answer, float elapsed = 1) {
    float surprise = 0;
    Fits("the key", key, QuerySize);
    Fits("the value", value, AnswerSize);
    Fits("the answer", answer, AnswerSize);
    fixed (float* k = key, v = value, a = answer) {
      var e = new Native.Event { key = k, value = v, answer = a, elapsed = &elapsed,
                                 surprise = &surprise };
      int result = Native.miras_memory_learn(this, ref e);
      if (result == 1)   // all else was checked
        throw new MirasException(1, "elapsed is " + Desc.Number(elapsed) + "; it must not be " +
                                    "negative, and 1 of a memory without a decay gate");
      CheckWrite(result);
    }
    return surprise;
  }
  // Of categories (cross entropy): an answer becomes probabilities; both may be one array.
  public void Probabilities(float[] answer, float[] to) {
    Fits("the answer", answer, AnswerSize);
    Fits("the room", to, AnswerSize);
    int result = Native.miras_memory_probabilities(this, answer, to);
    if (result != 0)
      throw new MirasException(result, "probabilities are of memories whose bias is cross-entropy");
  }
  public void Reset() { Native.miras_memory_reset(this); }
  public ulong Position { get { return Native.miras_memory_position(this); } }
  // A snapshot, and back to one.
  public byte[] State {
    get { UIntPtr n; IntPtr p = Native.miras_memory_state(this, out n); return CopyState(p, n); }
    set { UIntPtr n; IntPtr p = Native.miras_memory_state(this, out n); PutState(value, p, n); }
  }
}

public sealed class Model : Owner {
  // How many numbers a row has: inputs, outputs, targets.
  public int Tokens { get; private set; }
  public int Vectors { get; private set; }
  public int Outputs { get; private set; }
  public int Classes { get; private set; }
  public int Values { get; private set; }

  public Model(ModelDesc d) {
    var why = new byte[256];
    Take(Native.miras_model_open(d.Block, IntPtr.Zero, why, (UIntPtr)256), 2, why);
    Measure();
  }
  public static Model Open(string path) {
    var m = new Model();
    var why = new byte[256];
    int result;
    IntPtr opened = Native.miras_model_open_file(Native.Text(path), IntPtr.Zero, IntPtr.Zero,
                                                 out result, why, (UIntPtr)256);
    m.Take(opened, result, why, path);
    m.Measure();
    return m;
  }
  private Model() {}
  private void Measure() {
    var row = new int[5];
    Marshal.Copy(Native.miras_model_row(this), row, 0, 5);
    Tokens = row[0]; Vectors = row[1]; Outputs = row[2]; Classes = row[3]; Values = row[4];
  }

  // Means and deviations of inputs "standardized", once, before training.
  public void Standardize(float[] vectors) {
    int has = vectors == null ? 0 : vectors.Length, rows = Vectors > 0 ? has / Vectors : 0;
    if (Vectors > 0 && has % Vectors != 0)
      throw new MirasException(1, "vectors has " + has + " numbers; rows of " + Vectors +
                                  " are wanted");
    if (Native.miras_model_standardize(this, vectors, (UIntPtr)rows) != 0)
      throw new MirasException(1, "no input of this model is standardized");
  }
  // A row of outputs becomes what it says: probabilities, deviations.
  public void Predict(float[] outputs) {
    Fits("outputs", outputs, Outputs);
    Native.miras_model_predict(this, outputs, (UIntPtr)1);
  }
}

// What needs its model for as long as it lives.
public abstract class OfModel : Owner {
  internal readonly Model Model;
  internal OfModel(Model model) { Model = model; }
  // A refusal holds nothing: what has no handle is never released.
  internal void Take(IntPtr opened, byte[] why) {
    bool added = false;
    if (opened == IntPtr.Zero) Native.Check(2, why);
    Model.DangerousAddRef(ref added);
    SetHandle(opened);
  }
  protected override bool ReleaseHandle() {
    base.ReleaseHandle();
    Model.DangerousRelease();
    return true;
  }
}

// A running text, or a running series of rows.
public sealed class Session : OfModel {
  public Session(Model model) : base(model) {
    var why = new byte[256];
    Take(Native.miras_session_open(model, IntPtr.Zero, IntPtr.Zero, why, (UIntPtr)256), why);
  }

  // Takes a row and says what comes of it; null for what the model does not read.
  public void Feed(int[] tokens, float[] vectors, float[] outputs) {
    Fits("tokens", tokens, Model.Tokens);
    Fits("vectors", vectors, Model.Vectors);
    Fits("outputs", outputs, Model.Outputs);
    IntPtr said = Native.miras_session_feed(this, tokens, vectors, (UIntPtr)1);
    if (said == IntPtr.Zero) Native.Check(1);
    Marshal.Copy(said, outputs, 0, outputs.Length);
    GC.KeepAlive(this);
  }
  // What came of the last row, for a head that learns.
  public void Learn(int[] classes, float[] values) {
    Fits("classes", classes, Model.Classes);
    Fits("values", values, Model.Values);
    Native.Check(Native.miras_session_learn(this, classes, values));
  }
  public void Reset() { Native.miras_session_reset(this); }
  public byte[] State {
    get { UIntPtr n; IntPtr p = Native.miras_session_state(this, out n); return CopyState(p, n); }
    set { UIntPtr n; IntPtr p = Native.miras_session_state(this, out n); PutState(value, p, n); }
  }
}

public sealed unsafe class Trainer : OfModel {
  readonly int mostBatch, mostLength;
  public Trainer(Model model, int batch, int length) : base(model) {
    var why = new byte[256];
    var room = new Native.Room { batch = batch, context = length };
    mostBatch = batch == 0 ? 1 : batch;
    mostLength = length;
    Take(Native.miras_trainer_open(model, ref room, IntPtr.Zero, why, (UIntPtr)256), why);
  }

  // Of `batch` sequences of `length` rows, one behind the other: the loss and, with train, what
  // Step needs. Null for what the model does not read or say.
  public float Loss(int batch, int length, int[] tokens, float[] vectors, int[] classes,
                    float[] values, bool train = true) {
    float loss;
    InRange("batch", batch, mostBatch);
    InRange("length", length, mostLength);
    long rows = (long)batch * length;
    Fits("tokens", tokens, rows * Model.Tokens);
    Fits("vectors", vectors, rows * Model.Vectors);
    Fits("classes", classes, rows * Model.Classes);
    Fits("values", values, rows * Model.Values);
    fixed (int* t = tokens, c = classes)
    fixed (float* x = vectors, y = values) {
      var b = new Native.Batch { batch = batch, length = length, tokens = t, vectors = x,
                                 classes = c, values = y };
      Native.Check(Native.miras_trainer_loss(this, ref b, train ? 1 : 0, out loss));
    }
    return loss;
  }
  // One step of AdamW along the gradient of the last loss; its norm before clipping.
  public float Step(float learningRate, float weightDecay = 0, float clip = 0) {
    float norm;
    var o = new Native.AdamW { beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f,
                               weight_decay = weightDecay, clip = clip };
    Native.Check(Native.miras_trainer_backward(this, IntPtr.Zero));
    Native.Check(Native.miras_trainer_step(this, ref o, learningRate, out norm));
    return norm;
  }
}

// ---- the calls of C ----

internal static unsafe class Native {
#if (UNITY_IOS || UNITY_WEBGL) && !UNITY_EDITOR
  const string Lib = "__Internal";
#else
  const string Lib = "miras";
#endif
  internal struct Event {
    public float* key; public int* index; public float* entry; public int count;
    public float* value, elapsed, answer, surprise;
  }
  internal struct Batch {
    public int batch, length; public int* tokens; public float* vectors; public int* classes;
    public float* values, weights; public int* carry; public byte* restart;
    public float* outputs, hidden, losses;
  }
  internal struct Room {
    public int batch, context, carried; public ulong limit; public void* parallel, only;
  }
  internal struct AdamW { public float beta1, beta2, epsilon, weight_decay, clip; }

  internal static byte[] Text(string s) { return Encoding.UTF8.GetBytes(s + "\0"); }
  internal static string Said(byte[] text) {
    return Encoding.UTF8.GetString(text, 0, Array.IndexOf(text, (byte)0));
  }
  internal static void Check(int result, byte[] why = null, string path = null) {
    if (result == 0) return;
    string sentence = why == null ? "" : Said(why);
    if (sentence == "") sentence = Marshal.PtrToStringAnsi(miras_result_text(result));
    throw new MirasException(result, path == null ? sentence : path + ": " + sentence);
  }

  [DllImport(Lib)] internal static extern IntPtr miras_result_text(int result);
  [DllImport(Lib)] internal static extern int miras_preset_find(byte[] name);
  [DllImport(Lib)] internal static extern IntPtr miras_preset_name(int preset);

  [DllImport(Lib)] internal static extern void miras_close(IntPtr owned);
  [DllImport(Lib)] internal static extern int miras_save(Owner owner, byte[] path);
  [DllImport(Lib)] internal static extern int miras_load(
      Owner owner, byte[] path, byte[] why, UIntPtr size);

  [DllImport(Lib)] internal static extern int miras_memory_preset(ulong[] d, int preset);
  [DllImport(Lib)] internal static extern int miras_memory_desc_set(
      ulong[] d, byte[] field, byte[] value);
  [DllImport(Lib)] internal static extern int miras_memory_desc_change(
      ulong[] d, byte[] field, byte[] value, byte[] said, UIntPtr size);
  [DllImport(Lib)] internal static extern IntPtr miras_memory_desc_of(Memory m);
  [DllImport(Lib)] internal static extern IntPtr miras_memory_desc_get(
      IntPtr d, byte[] field, byte[] text, UIntPtr size);
  [DllImport(Lib)] internal static extern IntPtr miras_memory_desc_get(
      ulong[] d, byte[] field, byte[] text, UIntPtr size);
  [DllImport(Lib)] internal static extern IntPtr miras_memory_desc_field(int i);
  [DllImport(Lib)] internal static extern int miras_memory_can_write(
      Memory m, byte[] why, UIntPtr size);
  [DllImport(Lib)] internal static extern IntPtr miras_memory_open(
      ulong[] d, IntPtr allocator, byte[] why, UIntPtr size);
  [DllImport(Lib)] internal static extern IntPtr miras_memory_open_file(
      byte[] path, IntPtr given, IntPtr allocator, out int result, byte[] why, UIntPtr size);
  [DllImport(Lib)] internal static extern int miras_memory_write(
      Memory m, float[] key, float[] value, out float surprise);
  [DllImport(Lib)] internal static extern int miras_memory_read(
      Memory m, float[] query, float[] answer);
  [DllImport(Lib)] internal static extern int miras_memory_learn(Memory m, ref Event e);
  [DllImport(Lib)] internal static extern int miras_memory_probabilities(
      Memory m, float[] answer, float[] to);
  [DllImport(Lib)] internal static extern void miras_memory_reset(Memory m);
  [DllImport(Lib)] internal static extern ulong miras_memory_position(Memory m);
  [DllImport(Lib)] internal static extern IntPtr miras_memory_state(Memory m, out UIntPtr size);

  [DllImport(Lib)] internal static extern int miras_model_preset(ulong[] d, int preset, int layers);
  [DllImport(Lib)] internal static extern int miras_model_desc_set(
      ulong[] d, byte[] field, byte[] value);
  [DllImport(Lib)] internal static extern int miras_model_desc_change(
      ulong[] d, byte[] field, byte[] value, byte[] said, UIntPtr size);
  [DllImport(Lib)] internal static extern IntPtr miras_model_desc_get(
      ulong[] d, byte[] field, byte[] text, UIntPtr size);
  [DllImport(Lib)] internal static extern IntPtr miras_model_desc_field(int i);
  [DllImport(Lib)] internal static extern IntPtr miras_model_open(
      ulong[] d, IntPtr allocator, byte[] why, UIntPtr size);
  [DllImport(Lib)] internal static extern IntPtr miras_model_open_file(
      byte[] path, IntPtr given, IntPtr allocator, out int result, byte[] why, UIntPtr size);
  [DllImport(Lib)] internal static extern IntPtr miras_model_row(Model m);
  [DllImport(Lib)] internal static extern int miras_model_standardize(
      Model m, float[] vectors, UIntPtr rows);
  [DllImport(Lib)] internal static extern void miras_model_predict(
      Model m, float[] outputs, UIntPtr rows);

  [DllImport(Lib)] internal static extern IntPtr miras_session_open(
      Model m, IntPtr d, IntPtr allocator, byte[] why, UIntPtr size);
  [DllImport(Lib)] internal static extern IntPtr miras_session_feed(
      Session s, int[] tokens, float[] vectors, UIntPtr rows);
  [DllImport(Lib)] internal static extern int miras_session_learn(
      Session s, int[] classes, float[] values);
  [DllImport(Lib)] internal static extern void miras_session_reset(Session s);
  [DllImport(Lib)] internal static extern IntPtr miras_session_state(Session s, out UIntPtr size);

  [DllImport(Lib)] internal static extern IntPtr miras_trainer_open(
      Model m, ref Room d, IntPtr allocator, byte[] why, UIntPtr size);
  [DllImport(Lib)] internal static extern int miras_trainer_loss(
      Trainer t, ref Batch x, int train, out float loss);
  [DllImport(Lib)] internal static extern int miras_trainer_backward(Trainer t, IntPtr g);
  [DllImport(Lib)] internal static extern int miras_trainer_step(
      Trainer t, ref AdamW o, float learningRate, out float norm);
}

}
