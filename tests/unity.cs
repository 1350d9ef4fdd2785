// unity.cs: as much of Unity as the sample of examples/csharp calls, so that it compiles here.
using System;

namespace UnityEngine {
public class MonoBehaviour {}
public static class Debug { public static void Log(object what) { Console.WriteLine(what); } }
public static class Application { public static string persistentDataPath = "."; }
}

static class Unity {
  static void Main() {
    typeof(Pairs).GetMethod("Start", (System.Reflection.BindingFlags)36).Invoke(new Pairs(), null);
  }
}
