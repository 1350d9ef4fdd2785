"""mutate.py: draws mutants of miras.h and runs tests on them; tests/mutate.sh says how.

All mutants are in one copy of the header, each behind a switch: `a < b` becomes
`a < miras__is(17) + b`, so that one build has them all and the environment chooses. A mutant is
known by its function and its text, not by its line, and so are the draws of a seed: what is
changed elsewhere changes none of them.
"""
import argparse
import bisect
import collections
import hashlib
import os
import pickle
import re
import subprocess
import sys

TOKEN = re.compile(r'''(?P<skip>/\*.*?\*/|//[^\n]*|\s+)
  |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
  |(?P<name>[A-Za-z_]\w*)
  |(?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)''', re.S | re.X)
TYPES = set('void char short int long float double signed unsigned size_t ptrdiff_t FILE const '
            'struct enum union static volatile register uintptr_t'.split())
WORDS = set('if else for while do switch case default return break continue goto sizeof'.split())
ASSIGN = set('= += -= *= /= %= &= |= ^= <<= >>='.split())
# Fields that stand for one another, for the operator "field".
FIELDS = dict(pair for a, b in (
  ('key_dim', 'value_dim'), ('rows', 'cols'), ('heads', 'batch'), ('in', 'out'), ('at_s', 'split'),
  ('weights', 'features'), ('scratch', 'state'), ('r0', 'm'), ('place', 'offset'), ('ld_p', 'ld_x'),
  ('width', 'hidden'), ('positions', 'states'), ('first', 'last')) for pair in ((a, b), (b, a)))
SILENT = re.compile(r'MIRAS__(CHECKED|WATCH|UNUSED)$|MIRAS_ASSERT$|assert$')

Token = collections.namedtuple('Token', 'kind text at end')


class Mutant:
  """Edits (from, to, text) of the header; "@" in a text is 1 where the mutant is on, else 0."""

  def __init__(self, room, function, kind, at, end, now, edits):
    self.room, self.function, self.kind, self.edits = room, function, kind, edits
    self.at, self.end, self.now = at, end, now


def is_type(name):
  return name in TYPES or re.match(r'u?int\d+_t$|miras_', name) is not None


class Body:
  """The tokens of a function's body, with the place of each bracket's other half."""

  def __init__(self, source, room, name, tokens):
    self.source, self.room, self.name, self.tokens = source, room, name, tokens
    self.match, self.inside, stack = {}, [], []
    for i, token in enumerate(tokens):
      if token.text in (')', ']', '}') and token.kind == 'op' and stack:
        self.match[stack[-1]], self.match[i] = i, stack[-1]
        stack.pop()
      self.inside.append(stack[-1] if stack else -1)
      if token.text in ('(', '[', '{') and token.kind == 'op':
        stack.append(i)

  def text(self, i):
    return self.tokens[i].text if 0 <= i < len(self.tokens) else ''

  def span(self, i, j):
    """The source of tokens i..j-1."""
    return self.source[self.tokens[i].at:self.tokens[j - 1].end]

  def is_cast(self, i):
    """Is the parenthesis that opens at i one around a type?"""
    j = self.match.get(i, i)
    words = [self.text(k) for k in range(i + 1, j)]
    return bool(words) and all(re.match(r'[A-Za-z_]\w*$|\*$', w) for w in words) and (
      words[-1] == '*' or is_type(words[0]))

  def is_operand(self, i):
    """Does an operand end with token i, so that an operator behind it has two?"""
    token = self.tokens[i]
    if token.kind in ('number', 'text') or token.text == ']':
      return True
    if token.text == ')':
      return not self.is_cast(self.match.get(i, i))
    return token.kind == 'name' and token.text not in WORDS and token.text not in TYPES

  def left(self, i, stops):
    """Where the operand left of operator i begins."""
    while i > 0:
      i -= 1
      text = self.text(i)
      if text in (')', ']', '}') and i in self.match and text != '}':
        i = self.match[i]
      elif text in stops or text in ASSIGN or text in ('(', '[', '{', '}', ';', ',', 'return'):
        return i + 1
    return 0

  def right(self, i, stops):
    """Behind the operand right of operator i."""
    i += 1
    while i < len(self.tokens):
      text = self.text(i)
      if text in ('(', '[', '{') and i in self.match:
        i = self.match[i]
      elif text in stops or text in ASSIGN or text in (')', ']', '}', ';', ','):
        return i
      i += 1
    return i

  def unary(self, i):
    """Behind the unary expression that begins at i."""
    while self.text(i) in ('!', '~', '-', '+', '*', '&', '++', '--', 'sizeof') or (
        self.text(i) == '(' and self.is_cast(i)):
      i = self.match[i] + 1 if self.text(i) == '(' else i + 1
    i = self.match.get(i, i) + 1 if self.text(i) == '(' else i + 1
    while self.text(i) in ('[', '(', '.', '->', '++', '--'):
      i = self.match.get(i, i) + 1 if self.text(i) in ('[', '(') else i + (
        1 if self.text(i) in ('++', '--') else 2)
    return i

  def arguments(self, i):
    """(from, to) of each argument of the call whose parenthesis opens at i."""
    found, begin, j = [], i + 1, i + 1
    while j <= self.match[i]:
      if self.text(j) in ('(', '[', '{') and j in self.match:
        j = self.match[j]
      elif self.text(j) == ',' or j == self.match[i]:
        found.append((begin, j))
        begin = j + 1
      j += 1
    return found

  def mutant(self, kind, i, j, now, *edits):
    """Tokens i..j-1 read `now`; edits: (token, 'before' | 'behind' | token of the end, text)."""
    places = []
    for k, how, text in edits:
      token = self.tokens[k]
      if how == 'before':
        places.append((token.at, token.at, text))
      elif how == 'behind':
        places.append((token.end, token.end, text))
      else:
        places.append((token.at, self.tokens[how - 1].end, text))
    return Mutant(self.room, self.name, kind, self.tokens[i].at, self.tokens[j - 1].end, now,
                  places)

  def statement(self, i):
    """Behind the expression or jump that is a statement from token i on, or 0."""
    before, word = self.text(i - 1), self.text(i)
    if self.inside[i] < 0 or self.text(self.inside[i]) != '{':
      return 0
    if before == ')':
      if self.text(self.match.get(i - 1, 0) - 1) not in ('if', 'for', 'while', 'switch'):
        return 0
    elif before not in (';', '{', '}', 'else', ':'):
      return 0
    jump = word in ('break', 'continue', 'return')
    if not jump and (word in WORDS or word in TYPES or not (
        self.tokens[i].kind == 'name' or word in ('*', '++', '--')) or SILENT.match(word)):
      return 0
    if word != '*' and not jump and (self.tokens[i + 1].kind == 'name' or (
        self.text(i + 1) == '*' and is_type(word)) or self.text(i + 1) == ':'):
      return 0
    j = i
    while self.text(j) != ';':
      if self.text(j) in ('{', '}'):
        return 0
      j = self.match.get(j, j) + 1 if self.text(j) in ('(', '[') else j + 1
    if word == 'return' and self.text(j + 1) == '}' and self.inside[i] == 0:
      return 0   # the only way out
    return j + 1

  def mutants(self, enumerators):
    skip_to = 0
    for i, token in enumerate(self.tokens):
      if i < skip_to:
        continue
      if token.kind == 'name' and SILENT.match(token.text) and self.text(i + 1) == '(':
        skip_to = self.match.get(i + 1, i) + 1
        continue
      yield from self.of_token(i, token, enumerators)

  def of_token(self, i, token, enumerators):
    text, binary = token.text, i > 0 and self.is_operand(i - 1)
    j = self.statement(i)
    if j:
      yield self.mutant('delete', i, j, '', (i, 'before', 'if (@) ; else '))
    if token.kind == 'number':
      if re.match(r'(\d+|0[xX][\da-fA-F]+)[uUlL]*$', text):
        for sign in '+-' if not re.match('0[uUlL]*$', text) else '+':
          now = text if text[0] != '0' else 'n'
          value = int(re.sub('[uUlL]+$', '', text), 0) + (1 if sign == '+' else -1)
          now = str(value)
          yield self.mutant('constant', i, i + 1, now, (i, 'behind', ' %s @)' % sign),
                            (i, 'before', '('))
      elif not text.startswith('0x'):
        zero = float(text.rstrip('fF')) == 0
        now = '1' if zero else '2 * ' + text
        yield self.mutant('constant', i, i + 1, now, (i, i + 1, '(@ ? %s : %s)' % (now, text)))
    elif text in ('+', '-') and binary:
      other = '-' if text == '+' else '+'
      yield self.mutant('sign', i, i + 1, other, (i, 'behind', ' (@ ? -1 : 1) *'))
    elif text in ('*', '/') and binary and not (
        self.tokens[i - 1].kind == 'name' and is_type(self.text(i - 1))):
      j = self.unary(i + 1)
      yield self.mutant('factor', i, j, '', (i + 1, j, '(@ ? 1 : %s)' % self.span(i + 1, j)))
    elif text in ('<', '<=', '>', '>='):
      other = text[0] if text[1:] else text + '='
      edit = (i, 'behind', ' @ +') if text in ('<', '>=') else (i, 'before', '+ @ ')
      yield self.mutant('bound', i, i + 1, other, edit)
    elif text in ('==', '!='):
      j = self.right(i, ('&&', '||', '?', ':', '==', '!=', '&', '|', '^'))
      yield self.mutant('equal', i, i + 1, '!=' if text == '==' else '==',
                        (j - 1, 'behind', ' != @'))
    elif text in ('&&', '||') and binary:
      stops = ('||', '?', ':') if text == '&&' else ('?', ':')
      a, b = self.left(i, stops), self.right(i, stops + (text,))
      yes = '(@ || ' if text == '&&' else '(!@ && '
      if not re.match(r'MIRAS__\w+$', self.span(a, i)):   # a constant of the build
        yield self.mutant('left', a, i + 1, '', (a, 'before', yes + '('), (i - 1, 'behind', '))'))
      yield self.mutant('right', i, b, '', (i + 1, 'before', yes + '('), (b - 1, 'behind', '))'))
    elif text == 'if' and i + 1 in self.match:
      j = self.match[i + 1]
      yield self.mutant('negate', i + 1, j + 1, '(!(..))', (i + 1, 'behind', '@ == !('),
                        (j, 'before', ')'))
    elif text == '?':
      a = self.left(i, ('?', ':'))
      yield self.mutant('negate', a, i, '!(..)', (a, 'before', '(@ == !('), (i - 1, 'behind', '))'))
    elif text == '!':
      j = self.unary(i)
      yield self.mutant('negate', i, i + 1, '!!', (i, 'before', '(@ != '), (j - 1, 'behind', ')'))
    elif text in ('+=', '-='):
      j = self.right(i, ())
      yield self.mutant('sign', i, i + 1, '-=' if text == '+=' else '+=',
                        (i, 'behind', ' (@ ? -1 : 1) * ('), (j - 1, 'behind', ')'))
    elif text == '[' and binary and i in self.match:
      yield self.mutant('index', i, self.match[i] + 1, '[1 + ..]', (i, 'behind', '@ + '))
    elif text == 'return' and self.text(i + 1) != ';':
      j = self.right(i, ())
      if self.text(j) == ';' and not re.match(r'-?0[.f0]*$|NULL$|MIRAS_\w+$', self.span(i + 1, j)):
        yield self.mutant('return', i + 1, j, '0', (i + 1, 'before', '@ ? 0 : ('),
                          (j - 1, 'behind', ')'))
    elif token.kind == 'name':
      if text in enumerators:
        yield self.mutant('enumerator', i, i + 1, enumerators[text],
                          (i, i + 1, '(@ ? %s : %s)' % (enumerators[text], text)))
      if text in FIELDS and self.text(i - 1) in ('.', '->') and self.text(i + 1) not in ASSIGN:
        a = self.left_of_field(i)
        yield self.mutant('field', i, i + 1, FIELDS[text],
                          (a, i + 1, '(@ ? %s%s : %s)' % (self.span(a, i), FIELDS[text],
                                                          self.span(a, i + 1))))
      if self.text(i + 1) == '(' and i + 1 in self.match and text not in WORDS and (
          re.search('[a-z]', text) and not is_type(self.text(i - 1)) and text != 'miras__say'):
        given = self.arguments(i + 1)
        for (a, b), (c, d) in zip(given, given[1:]):
          x, y = self.span(a, b), self.span(c, d)
          if x != y and '{' not in x + y:
            yield self.mutant('swap', a, d, '%s, %s' % (y, x), (a, b, '@ ? %s : %s' % (y, x)),
                              (c, d, '@ ? %s : %s' % (x, y)))

  def left_of_field(self, i):
    """Where the object begins whose field token i is."""
    while self.text(i - 1) in ('.', '->'):
      i -= 2
      while self.text(i) in (')', ']'):
        i = self.match[i] - (self.text(self.match[i] - 1) not in ('(', ',', '=')
                             and self.tokens[self.match[i] - 1].kind == 'name')
    return i


def tokens_of(source):
  """All tokens but those of directives and comments."""
  at, fresh, found = 0, True, []
  while at < len(source):
    if fresh and source[at] == '#':
      while True:
        end = source.find('\n', at)
        piece, at = source[at:end], end + 1
        if not piece.rstrip().endswith('\\') and piece.count('/*') == piece.count('*/'):
          break
      continue
    m = TOKEN.match(source, at)
    if m.lastgroup != 'skip':
      found.append(Token(m.lastgroup, m.group(), at, m.end()))
      fresh = False
    elif '\n' in m.group():
      fresh = True
    at = m.end()
  return found


def enumerators_of(source):
  """Each enumerator's next one."""
  found = {}
  plain = re.sub(r'/\*.*?\*/', '', source, flags=re.S)
  for body in re.findall(r'\benum\s*\w*\s*\{([^{}]*)\}', plain):
    names = re.findall(r'^\s*(\w+)', re.sub('#.*', '', body).replace(',', '\n'), re.M)
    for a, b in zip(names, names[1:] + names[:1]):
      if a != b:
        found[a] = b
  return found


def bodies_of(source):
  """The bodies of all functions: from a brace behind a parenthesis to one at the first column."""
  banners = [(m.start(), m.group(1)) for m in re.finditer(r'^/\* @(\d\d) ', source, re.M)]
  tokens, i, depth = tokens_of(source), 0, 0
  while i < len(tokens):
    text = tokens[i].text
    if text == '{' and depth == 0 and i and tokens[i - 1].text == ')':
      j, k, d, open_braces = i, i - 1, 1, 1
      while open_braces and (j == i or tokens[j].text != '}' or source[tokens[j].at - 1] != '\n'):
        j += 1
        open_braces += (tokens[j].text == '{') - (tokens[j].text == '}')
      while d and k:
        k -= 1
        d += (tokens[k].text == ')') - (tokens[k].text == '(')
      room = [number for at, number in banners if at < tokens[i].at]
      if room:
        yield Body(source, room[-1], tokens[k - 1].text, tokens[i:j + 1])
      i = j
    elif text == '{' and tokens[i - 1].kind != 'text':
      depth += 1
    elif text == '}' and depth:
      depth -= 1
    i += 1


def describe(source, mutants):
  """Names: function, the line with [what it reads -> what it would], and of several a number."""
  seen = collections.Counter()
  starts = [0] + [i.end() for i in re.finditer('\n', source)]
  for m in mutants:
    a, b = source.rfind('\n', 0, m.at) + 1, source.find('\n', m.at)
    end = min(m.end, b)
    old = source[m.at:end] + (' ..' if m.end > b else '')
    line = '%s[%s -> %s]%s' % (source[a:m.at], old, m.now, source[end:b])
    line = re.sub(r'\s*/\*.*?(\*/|$)', '', line)
    m.name = m.function + ' | ' + ' '.join(line.split())
    seen[m.name] += 1
    if seen[m.name] > 1:
      m.name += ' #%d' % seen[m.name]
    m.line = bisect.bisect(starts, m.at)
    m.lines = range(m.line, bisect.bisect(starts, max(e[1] for e in m.edits)) + 1)


def draw(source, rooms, seed, only, of_kinds):
  """One mutant for so many lines of each room, of every kind as many, none on another's lines."""
  enumerators, by_room = enumerators_of(source), collections.OrderedDict((r, []) for r in rooms)
  for body in bodies_of(source):
    if body.room in rooms and re.search(rooms[body.room][0], body.name):
      body_lines = source.count('\n', body.tokens[0].at, body.tokens[-1].at)
      by_room[body.room].append((body_lines, list(body.mutants(enumerators))))
  chosen = []
  for room, bodies in by_room.items():
    all_of = sum((mutants for _, mutants in bodies), [])
    describe(source, all_of)
    wanted = sum(lines for lines, _ in bodies) // rooms[room][1]
    kinds, taken, count = collections.OrderedDict(), set(), 0
    for m in sorted(all_of, key=lambda m: hashlib.sha256(
        ('%s %s %s' % (seed, m.kind, m.name)).encode()).digest()):
      if (not only or any(o in m.name for o in only)) and (not of_kinds or m.kind in of_kinds):
        kinds.setdefault(m.kind, collections.deque()).append(m)
    queue = collections.deque(kinds[k] for k in sorted(kinds))
    while queue and (count < wanted or only):
      of = queue.popleft()
      while of:
        m = of.popleft()
        if not taken.intersection(m.lines):
          taken.update(m.lines)
          chosen.append(m)
          count += 1
          break
      if of:
        queue.append(of)
  return chosen


SWITCH = '''#ifndef MIRAS__MUTANT
#define MIRAS__MUTANT 1
#include <stdio.h>
#include <stdlib.h>
__attribute__((weak)) int miras__mutant;
__attribute__((weak)) unsigned char miras__met[%d];
__attribute__((weak)) extern void cmocka_set_test_filter(const char *);
__attribute__((weak)) void miras__mutant_end(void) {
  FILE *f = fopen(getenv("MIRAS_MET"), "wb");
  fwrite(miras__met, 1, sizeof miras__met, f);
  fclose(f);
}
__attribute__((weak, constructor)) void miras__mutant_start(void) {
  const char *on = getenv("MIRAS_MUTANT"), *only = getenv("MIRAS_CASE");
  miras__mutant = on ? atoi(on) : 0;
  if (only && cmocka_set_test_filter) cmocka_set_test_filter(only);
  if (getenv("MIRAS_MET")) atexit(miras__mutant_end);
}
static inline int miras__is(int id) {
  if (miras__mutant < 0) miras__met[id] = 1;
  return miras__mutant == id;
}
#endif
#line 1
'''


def switched(source, mutants):
  """The header with all of them behind switches."""
  edits = []
  for m in mutants:
    for n, (a, b, text) in enumerate(m.edits):
      edits.append((a, b, n, text.replace('@', 'miras__is(%d)' % m.id)))
  for a, b, _, text in sorted(edits, reverse=True):
    source = source[:a] + text + source[b:]
  return SWITCH % (max((m.id for m in mutants), default=0) + 1) + source


class Runner:
  def __init__(self, o):
    self.o, self.tree = o, os.path.join(o.folder, 'tree')

  def write(self, source, mutants):
    with open(os.path.join(self.tree, 'miras.h'), 'w') as f:
      f.write(switched(source, mutants))

  def gcc(self, *words):
    line = 'gcc -std=gnu99 -DMIRAS_NO_AVX512 -DMIRAS_NO_SIMD'.split() + list(words)
    return subprocess.run(line, cwd=self.tree, capture_output=True, text=True)

  def compiled(self, source, mutants):
    """Those whose code compiles, and is compiled."""
    bad = re.compile(r'miras\.h:(\d+):\d+: (?:error|warning: .*(?:mismatch|incompatible|discards|'
                     r'makes|comparison between pointer|\[-Wvla\]))')
    for m in mutants:   # on lines of their own, so that a line says which
      m.dropped = False
    while True:
      self.write(source, [m for m in mutants if not m.dropped])
      done = self.gcc('-Wvla', '-fsyntax-only', 'tests/object.c')
      lines = set(int(n) for n in bad.findall(done.stderr))
      found = [m for m in mutants if not m.dropped and lines.intersection(m.lines)]
      if not found:
        if done.returncode:
          sys.exit(done.stderr[:4000])
        break
      for m in found:
        m.dropped = True
    there = set(re.findall(r'miras__is\((\d+)\)', self.gcc('-E', '-P', 'tests/object.c').stdout))
    mutants = [m for m in mutants if not m.dropped and str(m.id) in there]
    self.write(source, mutants)
    return mutants

  def make(self, output, source, *words):
    """Compile unless that has been done."""
    digest = hashlib.sha256(' '.join(words).encode())
    tests = os.path.join(self.tree, 'tests')
    for name in ['../miras.h', source] + sorted(n for n in os.listdir(tests) if n.endswith('.h')):
      with open(os.path.join(tests, name), 'rb') as f:
        digest.update(f.read())
    mark, now = os.path.join(self.tree, output + '.mark'), digest.hexdigest()
    if os.path.exists(mark) and open(mark).read() == now:
      return now
    done = self.gcc(*words, 'tests/' + source, '-o', output, '-lcmocka', '-lm', '-lpthread')
    if done.returncode:
      sys.exit(done.stderr[:4000])
    with open(mark, 'w') as f:
      f.write(now)
    return now

  def build(self, programs):
    """Programs NAME[@cases][:flags], linked with an object where table.sh says so."""
    with open(os.path.join(self.tree, 'tests', 'table.sh')) as f:
      linked = ' '.join(re.findall(r'^linked=[\'"](.*)[\'"]', f.read(), re.M)).split()
    self.cases = []
    for program in programs:
      name, _, more = program.partition(':')
      name, _, only = name.partition('@')
      flags = ['-w', '-DMIRAS_TEST_FIRST', self.o.level] + more.split()
      output, words = 'bin_' + re.sub(r'\W', '_', program), list(flags)
      if name in linked:
        of_object = [w for w in flags if not w.startswith('-DMIRAS_TEST')]
        object_file = 'object' + re.sub(r'\W', '_', ''.join(of_object)) + '.o'
        self.make(object_file, 'object.c', '-c', *of_object)
        words += ['-DMIRAS_TEST_LINKED', object_file]
      mark = self.make(output, name + '.c', *words)
      with open(os.path.join(self.tree, 'tests', name + '.c')) as f:
        for case in re.findall(r'cmocka_unit_test\((\w+)\)', f.read()):
          if re.search(only, case):
            self.cases.append((program, './' + output, case, mark))

  def run(self, binary, case, mutant, limit, met=None):
    """(passed, seconds of processor)"""
    env = dict(os.environ, MIRAS_CASE=case, MIRAS_MUTANT=str(mutant), TMPDIR=self.o.folder)
    if met:
      env['MIRAS_MET'] = met
    line = 'ulimit -v %d -t %d; exec "$0"' % (self.o.memory, limit + 1)
    before = os.times()
    try:
      passed = subprocess.run(['sh', '-c', line, binary], env=env, cwd=self.tree,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=20 * limit + 20).returncode == 0
    except subprocess.TimeoutExpired:
      passed = False
    now = os.times()
    return passed, now[2] + now[3] - before[2] - before[3]

  def trace(self):
    """Which cases meet which mutants, and how long they take without one."""
    self.met, self.kills = [], collections.Counter()
    path, kept = os.path.join(self.o.folder, 'met'), os.path.join(self.o.folder, 'traces')
    traces = pickle.load(open(kept, 'rb')) if os.path.exists(kept) else {}
    for program, binary, case, mark in self.cases:
      if (mark, case) not in traces:
        if os.path.exists(path):
          os.remove(path)
        passed, seconds = self.run(binary, case, -1, self.o.limit, path)
        met = open(path, 'rb').read() if passed and os.path.exists(path) else None
        print('%s %s: %.2f s%s' % (program, case, seconds, '' if met else ', fails or is too long'),
              flush=True)
        traces[mark, case] = seconds, met
        pickle.dump(traces, open(kept, 'wb'))
      seconds, met = traces[mark, case]
      if met and seconds <= self.o.limit:
        self.met.append((seconds, program, binary, case, met))

  def judge(self, m):
    """What kills it, and after how long."""
    ways = [c for c in self.met if c[4][m.id]]
    if not ways:
      return 'not met', ''
    spent, kills = 0, self.kills
    for way in sorted(ways, key=lambda c: (c[0] + 0.03) / (0.2 + kills[m.room, c[1], c[3]])):
      seconds, program, binary, case, _ = way
      spent += seconds
      if spent > self.o.budget:
        break
      passed, took = self.run(binary, case, m.id, 3 * seconds + 2)
      if not passed:
        kills[m.room, program, case] += 1
        return 'killed', '%s %s %.2f' % (program, case, seconds)
    return 'lives', ''


def main():
  p = argparse.ArgumentParser()
  p.add_argument('folder')
  p.add_argument('--rooms', default='')
  p.add_argument('--share', type=int, default=16)
  p.add_argument('--seed', default='1')
  p.add_argument('--only', action='append')
  p.add_argument('--kinds', default='')
  p.add_argument('--programs', default='test_units')
  p.add_argument('--limit', type=float, default=20)
  p.add_argument('--budget', type=float, default=60)
  p.add_argument('--level', default='-O1')
  p.add_argument('--memory', type=int, default=4 << 20)
  p.add_argument('--list', action='store_true')
  p.add_argument('--seen')
  o = p.parse_args()
  o.folder = os.path.abspath(o.folder)
  rooms = collections.OrderedDict()
  for word in o.rooms.split():
    word, _, of = word.partition('=')
    number, _, lines = word.partition('/')
    rooms[number] = of, int(lines or o.share)
  with open('miras.h') as f:
    source = f.read()
  mutants = draw(source, rooms, o.seed, o.only, o.kinds.split())
  for i, m in enumerate(mutants):
    m.id = i + 1
  if o.list:
    for m in mutants:
      print('@%s %d %s | %s' % (m.room, m.line, m.kind, m.name))
    return
  runner = Runner(o)
  os.makedirs(runner.tree, exist_ok=True)
  subprocess.run(['cp', '-r', 'tests', 'examples', 'miras_cuda.cuh', 'README.md', runner.tree],
                 check=True)
  drawn = len(mutants)
  mutants = runner.compiled(source, mutants)
  print('%d drawn, %d compile' % (drawn, len(mutants)), flush=True)
  known = {}
  with open('tests/mutate_same.txt') as f:
    for line in f:
      name, _, why = line.rstrip('\n').rpartition(' | ')
      known[name] = why
  seen = {}
  for line in open(o.seen) if o.seen else ():
    words = line.rstrip('\n').split(' | ', 5)
    if words[1] == 'killed':
      seen[words[5]] = words[2]
  runner.build(o.programs.split(','))
  runner.trace()
  table = collections.OrderedDict((room, collections.Counter()) for room in rooms)
  with open(os.path.join(o.folder, 'results.txt'), 'w') as f:
    for m in mutants:
      if m.name in known:
        word, by = 'equivalent', known[m.name]
      elif m.name in seen:
        word, by = 'killed', seen[m.name]
      else:
        word, by = runner.judge(m)
      table[m.room][word] += 1
      line = '@%s | %s | %s | %s | %d | %s' % (m.room, word, by, m.kind, m.line, m.name)
      f.write(line + '\n')
      f.flush()
      if word in ('lives', 'not met'):
        print(line, flush=True)
  words = 'killed', 'equivalent', 'lives', 'not met'
  print('| room | mutants | %s |\n|---|%s' % (' | '.join(words), '---:|' * (1 + len(words))))
  for room, n in list(table.items()) + [('all', sum(table.values(), collections.Counter()))]:
    print('| %s | %d | %s |' % (room, sum(n.values()), ' | '.join(str(n[w]) for w in words)))


if __name__ == '__main__':
  main()
