// Pairs.cs: a memory learns what four guards of a game have seen, forgets nothing by being saved,
// and is rolled back. In Unity it is a component, elsewhere a program (README.md says how).
using System;
using System.IO;
using Miras;

public class Pairs
#if UNITY_5_3_OR_NEWER
  : UnityEngine.MonoBehaviour {
  void Start() { Learn(UnityEngine.Debug.Log, UnityEngine.Application.persistentDataPath); }
#else
{
  static int Main() { return Learn(Console.WriteLine, Path.GetTempPath()); }
#endif

  static readonly string[] guards = { "gate", "tower", "cellar", "garden" };
  static readonly float[][] places = {
    new[] { 3f, 1f }, new[] { -2f, 4f }, new[] { 0.5f, -1f }, new[] { 6f, 2f } };

  static float[] KeyOf(int guard) {
    var key = new float[guards.Length];
    key[guard] = 1;
    return key;
  }

  // Where the memory thinks each guard saw the player: the largest error.
  static float Worst(Memory m) {
    var said = new float[2];
    float worst = 0;
    for (int i = 0; i < guards.Length; i++) {
      m.Read(KeyOf(i), said);
      for (int j = 0; j < 2; j++) worst = Math.Max(worst, Math.Abs(said[j] - places[i][j]));
    }
    return worst;
  }

  static int Learn(Action<string> say, string folder) {
    string path = Path.Combine(folder, "guards.memory");
    var d = new MemoryDesc("gated-deltanet").Set("key_dim", 4).Set("value_dim", 2);
    using (var m = new Memory(d)) {
      for (int round = 1; round <= 8; round++) {
        float surprise = 0;
        for (int i = 0; i < guards.Length; i++) surprise += m.Write(KeyOf(i), places[i]);
        if ((round & (round - 1)) == 0)
          say("round " + round + ": surprise " + surprise.ToString("F4"));
      }
      say("wrong by " + Worst(m).ToString("F3"));

      byte[] before = m.State;
      m.Write(KeyOf(0), new[] { 100f, 100f });
      say("after one wild report: " + Worst(m).ToString("F3"));
      m.State = before;
      say("rolled back: " + Worst(m).ToString("F3"));
      m.Save(path);
    }
    float again;
    using (var m = Memory.Open(path)) again = Worst(m);
    File.Delete(path);
    say("saved and opened: " + again.ToString("F3"));
    try {
      new Memory(d.Set("key_dim", 5000)).Dispose();
    } catch (MirasException e) {
      say("refused: " + e.Message);
    }
    return again < 0.05f ? 0 : 1;
  }
}
