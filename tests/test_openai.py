"""test_openai.py OPENAI RUN LM: what examples/openai.c, the program OPENAI, answers over HTTP,
beside examples/run.c, the program RUN, with a model of bytes that examples/lm.c, the program LM,
trains.

    python3 tests/test_openai.py ./openai ./run ./lm
"""
import contextlib
import http.client
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

OPENAI, RUN, LM = (os.path.abspath(path) for path in sys.argv[1:4])
bad = []


def check(good, *what):
    if not good:
        print('test_openai.py:', *what)
        bad.append(what)


def same(got, want, what):
    check(got == want, what, ': ', repr(got)[:300], 'is not', repr(want)[:300])


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([OPENAI, 'byte.safetensors', '--port', '0', *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline().decode()
        if not line:
            sys.exit(self.process.stderr.read().decode())
        self.port = int(line.rsplit(':', 1)[1])

    def send(self, method, path, body=None):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=100)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection.request(method, path, body)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def ask(self, path, **fields):
        status, text = self.send('POST', path, fields)
        if status != 200:
            check(False, path, fields, status, text)
            sys.exit(1)
        return json.loads(text)

    def chat(self, *messages, **fields):
        roles = ['user', 'assistant']
        messages = [m if isinstance(m, dict) else {'role': roles[i % 2], 'content': m}
                    for i, m in enumerate(messages)]
        return self.ask('/v1/chat/completions', messages=messages, **fields)

    def text(self, *messages, **fields):
        return self.chat(*messages, **fields)['choices'][0]['message']['content']

    def events(self, path, **fields):
        """The chunks of a stream, which must be as they should."""
        status, text = self.send('POST', path, dict(fields, stream=True))
        check(status == 200, 'a stream:', status, text)
        parts = text.decode('utf-8').split('\n\n')     # no chunk splits a character, or all do
        check(parts[-2:] == ['data: [DONE]', ''], 'the end of a stream:', parts[-2:])
        check(all(part.startswith('data: ') for part in parts[:-1]), 'events:', parts[:3])
        return [json.loads(part[6:]) for part in parts[:-2]]

    def health(self):
        return json.loads(self.send('GET', '/health')[1])

    def hang_up(self, **fields):
        """Ask for a text without an end, and go; True if it is dropped."""
        before = self.health()['cancelled']
        body = json.dumps(dict(fields, prompt='The ', max_tokens=10 ** 9)).encode()
        s = socket.create_connection(('127.0.0.1', self.port))
        s.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s'
                  % (len(body), body))
        if fields:
            s.recv(500)
        else:
            wait_for(lambda: self.health()['active'] == 1)
            s.sendall(b'GET /health')      # which nobody reads any more
        s.close()
        return wait_for(lambda: self.health()['cancelled'] == before + 1
                        and self.health()['active'] == 0)

    def stop(self):
        self.process.terminate()
        same(self.process.wait(60), 0, 'the status of a server that is stopped: '
             + self.process.stderr.read().decode()[:2000])


def wait_for(what):
    end = time.time() + 60
    while time.time() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


@contextlib.contextmanager
def serve(*options):
    server = Server(*options)
    try:
        yield server
        server.stop()
    finally:
        if server.process.poll() is None:
            server.process.kill()


def run(options, lines=''):
    """What run writes, as JSON would say it, without the last newline."""
    got = subprocess.run([RUN, 'byte.safetensors', *options], input=lines.encode(), check=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
    return got[:-1].decode('utf-8', 'replace')


def talk(lines, *options):
    return run(['--chat', '--template', 'rwkv', *options], lines)


SETTINGS = [
    ({'seed': 2, 'max_tokens': 60}, ['--seed', '2', '--tokens', '60']),
    ({'temperature': 0, 'max_completion_tokens': 30}, ['--temperature', '0', '--tokens', '30']),
    ({'top_k': 9, 'seed': 3, 'max_tokens': 80}, ['--top-k', '9', '--seed', '3', '--tokens', '80']),
    ({'top_p': 0.5, 'max_tokens': 80, 'temperature': 1.5},
     ['--top-p', '0.5', '--tokens', '80', '--temperature', '1.5']),
    ({'top_p': 0, 'max_tokens': 30, 'temperature': 1}, ['--temperature', '0', '--tokens', '30']),
    ({'min_p': 0.2, 'repetition_penalty': 1.3, 'max_tokens': 80},
     ['--min-p', '0.2', '--repeat-penalty', '1.3', '--tokens', '80']),
    ({'temperature': 2, 'seed': 7}, ['--temperature', '2', '--seed', '7'])]


def check_answers(server):
    for fields, options in SETTINGS:
        want = talk('one\n', *options)
        answer = server.chat('one', **fields)
        same(answer['choices'][0]['message']['content'], want, 'an answer with %r' % fields)
        usage = answer['usage']
        same(usage['prompt_tokens'], len('User: one\n\nAssistant:'), 'tokens of a prompt')
        same(usage['total_tokens'], usage['prompt_tokens'] + usage['completion_tokens'], 'the sum')
        most = fields.get('max_tokens', fields.get('max_completion_tokens', 256))
        reason = answer['choices'][0]['finish_reason']
        check(usage['completion_tokens'] == most if reason == 'length' else reason == 'stop',
              'the end of an answer:', usage, reason, most)
        events = server.events('/v1/chat/completions', stream_options={'include_usage': True},
                               messages=[{'role': 'user', 'content': [
                                   {'type': 'text', 'text': 'o'}, {'type': 'text', 'text': 'ne'}]}],
                               **fields)
        same(events[0]['choices'][0]['delta'], {'role': 'assistant', 'content': ''}, 'the first')
        same(events[-1]['choices'], [], 'the last event')
        same({**events[-1]['usage'], 'prompt_tokens_details': 0},
             {**usage, 'prompt_tokens_details': 0}, 'usage of a stream')
        same([e['choices'][0]['finish_reason'] for e in events[:-1]],
             [None] * (len(events) - 2) + [reason], 'reasons of events')
        same(''.join(e['choices'][0]['delta'].get('content', '') for e in events[:-1]), want,
             'a stream with %r' % fields)
        prompt = server.ask('/v1/completions', prompt='The \u20ac', **fields)
        want = run(['--prompt', 'The \u20ac', *options])
        same(prompt['choices'][0]['text'], want, 'a text with %r' % fields)
        events = server.events('/v1/completions', prompt='The \u20ac', **fields)
        same(''.join(e['choices'][0]['text'] for e in events), want, 'its stream')
    system = {'role': 'system', 'content': 'Be brief.'}
    same(server.text(system, {'role': 'user', 'content': 'one'}, max_tokens=40),
         talk('one\n', '--system', 'Be brief.', '--tokens', '40'), "the system's text")


def plain_answer(server):
    """A seed by which the first of two answers is a text that comes back as it went."""
    for seed in range(1, 100):
        first = server.text('one', seed=seed, max_tokens=30, temperature=0.5)
        if first.isascii() and '\0' not in first and first:
            return seed, first
    sys.exit('test_openai.py: no seed has an answer of letters')


def check_turns(server, stores):
    seed, first = plain_answer(server)
    settings = {'seed': seed, 'max_tokens': 30, 'temperature': 0.5}
    before = server.health()
    answer = server.chat('one', first, 'two', **settings)
    after = server.health()
    same(first + '\n' + answer['choices'][0]['message']['content'],
         talk('one\ntwo\n', '--seed', str(seed), '--tokens', '30', '--temperature', '0.5'),
         'two turns')
    prompt = answer['usage']['prompt_tokens']
    cached = answer['usage']['prompt_tokens_details']['cached_tokens']
    same(prompt, len('User: one\n\nAssistant:' + first + '\n\nUser: two\n\nAssistant:'),
         'tokens of two turns')
    same(after['prompt_tokens_read'] - before['prompt_tokens_read'], prompt - cached,
         'what was read')
    if not stores:
        same(cached, 0, 'nothing is stored')
        return
    check(cached >= len('User: one\n\nAssistant:' + first) - 1, 'stored:', cached, 'of', prompt)
    before = after
    again = server.chat('one', first, 'two', **settings)
    same(again['choices'], answer['choices'], 'the same again')
    same(server.health()['prompt_tokens_read'] - before['prompt_tokens_read'], 1, 'read again')


def check_forks(server):
    """What prompts have in common at their beginning is read twice, and no more."""
    system = {'role': 'system', 'content': 'You are a word. ' * 20}
    read, answers = [], []
    for word in 'alpha', 'beta', 'gamma':
        answer = server.chat(system, {'role': 'user', 'content': word}, max_tokens=20)
        read.append(answer['usage']['prompt_tokens_details']['cached_tokens'])
        answers.append(answer['choices'][0]['message']['content'])
    common = len('System: ' + system['content'] + '\n\nUser: ')
    same(read, [0, 0, common], 'of a common beginning were stored')
    same(answers, [talk(word + '\n', '--system', system['content'], '--tokens', '20')
                   for word in ('alpha', 'beta', 'gamma')], 'answers behind it')


def check_stops(server):
    want = server.ask('/v1/completions', prompt='The ', max_tokens=60, temperature=0.5)
    want = want['choices'][0]['text']
    stop = want[20:23]
    for stops in stop, ['never to come', stop], [stop, stop + 'x']:
        got = server.ask('/v1/completions', prompt='The ', max_tokens=60, temperature=0.5,
                         stop=stops)
        same(got['choices'][0]['text'], want[:want.index(stop)], 'a text with a stop')
        same(got['choices'][0]['finish_reason'], 'stop', 'its reason')
        events = server.events('/v1/completions', prompt='The ', max_tokens=60, temperature=0.5,
                               stop=stops)
        same(''.join(e['choices'][0]['text'] for e in events), want[:want.index(stop)], 'a stream')
    half = want[-1] + 'zz'   # what may be its beginning goes out at the end
    got = server.ask('/v1/completions', prompt='The ', max_tokens=60, temperature=0.5, stop=half)
    same(got['choices'][0]['text'], want, 'a stop that does not come')
    for seed in range(1, 100):    # one that has come, within what may be the beginning of another
        fields = {'prompt': 'The ', 'max_tokens': 60, 'temperature': 0.5, 'seed': seed}
        want = server.ask('/v1/completions', **fields)['choices'][0]['text']
        if want.isascii() and want.index(want[-10:]) == len(want) - 10:
            break
    got = server.ask('/v1/completions', stop=[want[-20:] + 'zz', want[-10:]], **fields)
    same(got['choices'][0]['text'], want[:-10], 'a stop within the beginning of another')
    same(got['choices'][0]['finish_reason'], 'stop', 'its reason')


def check_many(server, alone):
    """Thirty clients at a time get what each gets alone; alone: seed -> text."""
    got = {}

    def client(seed):
        words = 'word ' * (seed % 7)
        if seed % 2:
            got[seed] = server.text('one ' + words, seed=seed, max_tokens=50)
        else:
            got[seed] = ''.join(
                e['choices'][0]['delta'].get('content', '') for e in
                server.events('/v1/chat/completions', seed=seed, max_tokens=50,
                              messages=[{'role': 'user', 'content': 'one ' + words}]))

    seeds = range(1, 31)
    if not alone:
        for seed in seeds:
            client(seed)
        alone.update(got)
        got.clear()
    threads = [threading.Thread(target=client, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(got, alone, 'thirty clients')


REFUSED = [
    (b'{', 400, None), (b'[]', 400, None), (b'', 400, None), (b'{"prompt": "\xff"}', 400, None),
    (b'{"prompt": "a\\u0000b"}', 400, None), (b'{"prompt": "a"} x', 400, None),
    ({'n': 2}, 400, 'n'), ({'tools': [{}]}, 400, 'tools'), ({'logprobs': True}, 400, 'logprobs'),
    ({'response_format': {'type': 'json_object'}}, 400, 'response_format'),
    ({'frequency_penalty': 1}, 400, 'frequency_penalty'), ({'stop': ['']}, 400, 'stop'),
    ({'stop': 5}, 400, 'stop'), ({'stop': ['x'] * 17}, 400, 'stop'), ({'seed': 1.5}, 400, 'seed'),
    ({'temperature': 'x'}, 400, 'temperature'), ({'top_p': 2}, 400, 'top_p'),
    ({'max_tokens': 0}, 400, 'max_tokens'), ({'stream': 1}, 400, 'stream'),
    ({'stream_options': []}, 400, 'stream_options'),
    ({'repetition_penalty': 0.5}, 400, 'repetition_penalty')]
MESSAGES = [
    (None, 'messages'), ([], 'messages'), ('x', 'messages'),
    ([{'role': 'user'}], 'messages[0].content'),
    ([{'role': 'user', 'content': [{'type': 'image_url', 'image_url': {}}]}],
     'messages[0].content[0]'),
    ([{'role': 'tool', 'content': 'x'}], 'messages[0].role'),
    ([{'role': 'assistant', 'content': 'x'}], 'messages[0].role'),
    ([{'role': 'user', 'content': 'x'}] * 2, 'messages[1].role'),
    ([{'role': 'user', 'content': 'x'}, {'role': 'system', 'content': 'x'}], 'messages[1].role'),
    ([{'role': 'system', 'content': 'x'}], 'messages')]


def refused(server, method, path, body, status, param):
    got, text = server.send(method, path, body)
    what = '%s %s %.100r' % (method, path, body)
    same(got, status, what)
    if method == 'HEAD':
        return
    error = json.loads(text)['error']
    same(error['param'], param, what + ' ' + error['message'])
    if param:
        check(param in error['message'], what, 'does not say', param, error['message'])


def check_refusals(server):
    for body, status, param in REFUSED:
        if isinstance(body, dict):
            body = {'prompt': 'x', **body}
        refused(server, 'POST', '/v1/completions', body, status, param)
    for messages, param in MESSAGES:
        refused(server, 'POST', '/v1/chat/completions', {'messages': messages}, 400, param)
    for prompt in None, ['x'], 5:
        refused(server, 'POST', '/v1/completions', {'prompt': prompt}, 400, 'prompt')
    refused(server, 'POST', '/v1/completions', b'{"prompt": "%s"}' % (b'x' * (1 << 20)), 413, None)
    refused(server, 'GET', '/v1/nothing', None, 404, None)
    refused(server, 'GET', '/v1/completions', None, 405, None)
    refused(server, 'POST', '/health', {}, 405, None)
    server.ask('/v1/completions', prompt='x', max_tokens=1, n=1, tools=[], user='me', stop=None,
               response_format={'type': 'text'}, logprobs=False, frequency_penalty=0)
    models = json.loads(server.send('GET', '/v1/models')[1])
    same([m['id'] for m in models['data']], ['byte.safetensors'], 'the models')
    same(server.send('HEAD', '/health'), (200, b''), 'HEAD')


def write_adapter(path, seed):
    """A file of views with adapters of rank 2 beside the model's queries and values."""
    with open('byte.safetensors', 'rb') as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
    draw, entries, data = random.Random(seed), {}, b''
    for name, tensor in header.items():
        if not name.endswith(('.q.weight', '.v.weight')):
            continue
        rows, cols = tensor['shape']
        for part, shape in (('a', [rows, 2]), ('b', [2, cols])):
            count = shape[0] * shape[1]
            entries['%s.adapter_%s' % (name, part)] = {
                'dtype': 'F32', 'shape': shape, 'data_offsets': [len(data), len(data) + 4 * count]}
            data += struct.pack('<%df' % count, *(draw.gauss(0, 0.3) for _ in range(count)))
    entries['__metadata__'] = {'format': 'miras-views', 'adapter.rank': '2', 'adapter.scale': '4',
                               'adapters': '*.q.weight,*.v.weight'}
    head = json.dumps(entries).encode()
    with open(path, 'wb') as file:
        file.write(len(head).to_bytes(8, 'little') + head + data)


def voices():
    """Several adapters in one server, by the field model: each says what run says with it."""
    write_adapter('one', 1)
    write_adapter('two', 2)
    names = {'byte.safetensors': [], 'a': ['--adapter', 'one'], 'b': ['--adapter', 'two']}
    for more in ([], ['--weights', 'q8'], ['--threads', '2', '--weights', 'q4']):
        want = {name: run(['--prompt', 'The word', '--tokens', '40', '--seed', '3', *more, *each])
                for name, each in names.items()}
        check(len(set(want.values())) == 3, 'adapters change nothing:', want)
        with serve('--adapter', 'a=one', '--adapter', 'b=two', *more) as server:
            got = {}

            def ask(name):
                got[name] = server.ask('/v1/completions', prompt='The word', max_tokens=40, seed=3,
                                       **({'model': name} if name else {}))
            for _ in range(2):                      # and from what is stored
                threads = [threading.Thread(target=ask, args=(name,)) for name in [*names, '']]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                for name in [*names, '']:
                    told = name or 'byte.safetensors'
                    same(got[name]['choices'][0]['text'], want[told], name)
                    same(got[name]['model'], told, 'the model that answered')
            models = json.loads(server.send('GET', '/v1/models')[1])
            same([m['id'] for m in models['data']], list(names), 'the models with adapters')
            refused(server, 'POST', '/v1/completions', {'prompt': 'x', 'model': 'c'}, 404, 'model')
            refused(server, 'POST', '/v1/completions', {'prompt': 'x', 'model': 1}, 404, 'model')
    with serve('--adapter', 'one') as server:
        answer = server.ask('/v1/completions', prompt='The word', max_tokens=40, seed=3, model='x')
        same(answer['choices'][0]['text'],
             run(['--prompt', 'The word', '--tokens', '40', '--seed', '3', '--adapter', 'one']),
             'an adapter for everyone')
    for wrong, says in ((['a=one', 'two'], 'without a name'), (['a=one', 'a=two'], 'already'),
                        (['a=none'], 'none')):
        options = [x for path in wrong for x in ('--adapter', path)]
        got = subprocess.run([OPENAI, 'byte.safetensors', '--port', '0', *options],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        check(got.returncode in (1, 2) and says in got.stderr.decode(), options, got)


def main():
    learn = ('User: one two\n\nAssistant: na\u00efve \u20ac 5, \U0001f600 and a word of it.\n\n'
             'The word is one.\nA word is two.\n') * 60
    with open('learn', 'w', encoding='utf-8') as file:
        file.write(learn)
    size = '--dim 16 --heads 2 --layers 1 --hidden 16 --context 32 --batch 4 --threads 1'
    subprocess.run([LM, 'train', 'learn', *size.split(), '--steps', '150', '--eval-every', '150',
                    '--out', 'byte.safetensors'], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    alone = {}
    with serve('--template', 'rwkv') as server:
        check_answers(server)
        check_turns(server, True)
        check_forks(server)
        check_stops(server)
        check_many(server, alone)
        check(server.health()['most_at_once'] > 1, 'nobody was served together')
        check(server.hang_up(), 'who hangs up is not dropped')
        check(server.hang_up(stream=True), 'who hangs up in a stream is not dropped')
        check_refusals(server)
        same(server.health()['active'], 0, 'left over')
    with serve('--template', 'rwkv', '--states', '0', '--threads', '2', '--piece', '3') as server:
        check_turns(server, False)
        check_many(server, alone)
        same(server.health()['states'], 0, 'stored')
    with serve('--template', 'rwkv', '--states', '3', '--conversations', '2') as server:
        check_many(server, alone)
        same(server.health()['states'], 3, 'stored')
        same(server.health()['most_at_once'], 2, 'at once')
    with serve() as server:                            # it stops in the midst of things
        refused(server, 'POST', '/v1/chat/completions',
                {'messages': [{'role': 'user', 'content': 'x'}]}, 400, 'messages')
        sockets = []
        for extra in {}, {'stream': True}:
            body = json.dumps(dict(extra, prompt='x', max_tokens=10 ** 9)).encode()
            s = socket.create_connection(('127.0.0.1', server.port))
            s.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s'
                      % (len(body), body))
            sockets.append(s)
        check(wait_for(lambda: server.health()['active'] == 2), 'two texts without an end')
    for s in sockets:
        s.close()
    voices()
    for options, status, words in (([], 2, 'a model is needed'), (['none'], 1, 'no such file'),
                                   (['byte.safetensors', '--host', 'x'], 2, 'must be an address'),
                                   (['byte.safetensors', '--prot', '1'], 2, 'is it --port?'),
                                   (['byte.safetensors', '--template', 'x'], 2, 'must be chatml')):
        got = subprocess.run([OPENAI, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        same(got.returncode, status, options)
        check(words in got.stderr.decode(), options, 'says', got.stderr)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='miras_openai.') as folder:
        os.chdir(folder)
        main()
        os.chdir('/')
    if not bad:
        print('test_openai.py: all right')
    sys.exit(1 if bad else 0)
