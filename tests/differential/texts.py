# Short programs of the common subset, one subject each; `# ===` begins one. generate.py runs them in
# Python and NumPy with the names of kvctl (arange, zeros and array give float32) and a local store.
# ===
a = zeros(2)
b = a
b += 1
print(a)
# ===
a = ones(3)
b = a
b = b + 1
print(a, b)
# ===
a = array([1, 2, 3])
b = a
a[0] = 9
print(b)
# ===
a = array([1, 2, 3])
b = [a, a]
b[0] += 1
print(b[1])
print(a)
# ===
l = [zeros(2)] * 3
l[0] += 1
print(l[2])
# ===
l = [zeros(2) for i in range(3)]
l[0] += 1
print(l[0], l[2])
# ===
a = ones(2)
l = [a]
l[0] = zeros(2)
print(a)
# ===
a = ones(2)
l = [a]
l[0][1] = 7
print(a)
# ===
a = ones((2, 2))
b = a
b[0, 1] = 5
b[1] = 3
print(a)
# ===
a = ones(4)
b = a
b[1:3] += 1
b[-1] *= 5
print(a)
# ===
def f(x):
    x += 1
a = zeros(2)
f(a)
print(a)
# ===
def f(x):
    x = x + 1
    return x
a = zeros(2)
print(f(a), a)
# ===
def f(n):
    n += 1
    return n
k = 3
print(f(k), k)
# ===
def f(l):
    l.append(4)
m = [1]
f(m)
print(m)
# ===
def f(l):
    l += [4]
m = [1]
f(m)
print(m)
# ===
def f(l):
    l = l + [4]
    return l
m = [1]
print(f(m), m)
# ===
l = [1, 2]
m = l
m.append(3)
print(l, len(l))
# ===
l = [1, 2]
m = l + []
m.append(3)
print(l, m)
# ===
l = [[0]] * 2
l[0].append(1)
print(l)
# ===
l = [1, 2, 3]
m = l[:]
m[0] = 9
print(l, m)
# ===
l = [1, 2]
m = list(l)
m[0] = 9
print(l, m)
# ===
params = [ones(2), ones(3)]
for p in params:
    p -= 0.5
print(params[0], params[1])
# ===
params = [ones(2), ones(3)]
for p in params:
    p = p - 0.5
print(params[0], params[1])
# ===
a = ones(2)
b = a
a *= 4
a /= 8
print(b)
# ===
a = array([1, 2, 3, 4])
a += a
print(a)
# ===
a = array([1, 2, 3, 4])
a -= a[0]
print(a)
# ===
a = array([1, 2, 3, 4])
a[1:] = a[:-1] + 0
print(a)
# ===
a = arange(6).reshape(2, 3)
b = copy(a[0])
b += 1
print(a, b)
# ===
a = arange(3)
b = copy(a)
b[:] = 7
print(a, b)
# ===
a = arange(3)
b = a.copy()
b *= 0
print(a, b)
# ===
a = array([1, 2, 3])
a += 0.5
print(a)
# ===
a = array([1, 2, 3], dtype='int64')
a += 1
print(a)
# ===
a = array([1, 2, 3], dtype='int64')
a += 0.5
print(a)
# ===
a = array([1, 2, 3], dtype='int64')
a /= 2
print(a)
# ===
a = array([1, 2, 3])
a += ones((2, 3))
print(a)
# ===
a = ones((2, 3))
a += array([1, 2, 3])
print(a)
# ===
d = {'w': zeros(2)}
e = d
e['w'] += 1
print(d['w'])
# ===
d = {'w': zeros(2)}
w = d['w']
w += 1
d['w'] = ones(1)
print(w, d['w'])
# ===
a = zeros(2)
t = (a, 1)
t[0][0] = 5
print(a)
# ===
t = (1, 2)
t[0] = 3
# ===
a, b = ones(2), zeros(2)
a, b = b, a
a += 5
print(a, b)
# === refused
a = b = ones(2)
a += 1
print(b)
# ===
x = 3
y = x
y += 1
print(x, y)
# ===
s = 'ab'
t = s
t += 'c'
print(s, t)
# ===
kv.init(3, ones(2))
a = zeros(2)
b = zeros(2)
outs = [a, b]
kv.pull(3, out=outs)
print(a, b)
# ===
kv.init([3, 4], [ones(2), ones(2) * 2])
a = zeros(2)
b = zeros(2)
outs = [a, b]
kv.pull([3, 4], out=outs)
print(a, b)
# ===
kv.init(3, ones(2))
params = [zeros(2), zeros(2)]
kv.pull(3, out=params[1])
print(params[0], params[1])
# ===
kv.init(3, ones(2))
params = [zeros(2), zeros(2)]
for p in params:
    kv.pull(3, out=p)
print(params[0], params[1])
# ===
kv.init(3, ones(2))
d = {'w': zeros(2)}
kv.pull(3, out=d['w'])
print(d['w'])
# ===
kv.init(3, ones(2))
a = ones(2) * 2
b = ones(2) * 5
kv.pushpull(3, [a, b])
print(a, b)
# ===
kv.init(3, ones(2))
a = ones(2) * 2
kv.pushpull(3, a)
a += 1
b = zeros(2)
kv.pull(3, out=b)
print(a, b)
# ===
a = ones(2)
kv.init(3, a)
a += 1
b = zeros(2)
kv.pull(3, out=b)
print(b)
# ===
a = ones(2)
kv.init(3, zeros(2))
kv.push(3, a)
a += 1
b = zeros(2)
kv.pull(3, out=b)
b += 5
c = zeros(2)
kv.pull(3, out=c)
print(b, c)
# ===
kv.init(3, ones(2))
a = zeros(2)
b = a
kv.pull(3, out=a)
print(b)
# ===
kv.init(3, ones(2))
def fill(x):
    kv.pull(3, out=x)
a = zeros(2)
fill(a)
print(a)
# ===
kv.init(3, zeros(2))
kv.push(3, [ones(2), ones(2), ones(2)])
a = zeros(2)
kv.pull(3, out=a)
print(a)
# ===
kv.init(3, zeros(2))
def update(key, grad, weight):
    weight += grad * 2
kv._set_updater(update)
kv.push(3, ones(2))
kv.push(3, [ones(2), ones(2)])
a = zeros(2)
kv.pull(3, out=a)
print(a)
# ===
rate = 0.5
kv.init(3, ones(2))
def update(key, grad, weight):
    weight -= rate * grad
kv._set_updater(update)
kv.push(3, ones(2))
rate = 0.25
kv.push(3, ones(2))
a = zeros(2)
kv.pull(3, out=a)
print(a)
# ===
lr = 0.5
wd = 0.25
kv.init(3, ones(2))
def update(key, grad, weight):
    weight -= lr * (grad + wd * weight)
kv._set_updater(update)
kv.push(3, ones(2))
a = zeros(2)
kv.pull(3, out=a)
print(a)
# ===
t = 4
kv.init(3, ones(2))
def update(key, grad, weight):
    weight[:] = weight + t * grad
kv._set_updater(update)
kv.push(3, ones(2))
a = zeros(2)
kv.pull(3, out=a)
print(a)
# ===
kv.init(3, zeros(2))
b = [zeros(2)] * 2
kv.pull(3, out=b)
b[0] += 1
print(b[1])
# ===
kv.init(3, zeros(2))
kv.push(3, ones(3))
# ===
kv.init(3, zeros(2))
kv.pull(4, out=zeros(2))
# ===
print([1, 2] * 2, [1, 2] + [3])
# ===
print([1, 2] + 1)
# ===
print([1, 2] - [1])
# ===
print([1, 2] * [3])
# ===
print(2 * [1, 'x'])
# ===
l = []
for i in range(4):
    l += [i * i]
print(l)
# ===
l = []
for i in range(4):
    l.append(i / 2)
print(l)
# ===
l = [1, 2, 3]
l += (4, 5)
print(l)
# ===
l = [1]
l += 5
# === refused
l = [3, 1, 2]
l.sort()
print(l, sorted([2, 1]), l[-1])
# === refused
l = [3, 1, 2]
l.sort(reverse=True)
print(l)
# ===
l = [3, 1, 2]
print(sorted(l, reverse=True), max(l), min(l), sum(l), len(l))
# ===
l = [1, 2, 3, 4, 5]
print(l[1:3], l[::-1], l[-2:], l[:-1], l[::2], l[10:], l[3:1])
# ===
l = [1, 2, 3]
print(l[3])
# ===
l = [1, 2, 3]
print(l.index(2), l.count(9), l.pop(), l.pop(0), l)
# ===
l = [1, 2, 3]
l.remove(2)
l.insert(0, 9)
l.extend([7, 7])
l.reverse()
print(l)
# ===
l = [1]
l.remove(5)
# ===
print([1, 2] == [1, 2], [1, 2] == [2, 1], [1, 2] < [1, 3], [1] < [1, 0], [] == [])
# ===
print((1, 2) == (1, 2), (1, 2) < (2, 0), (1,) + (2,), (1, 2) * 2)
# ===
print([1, 2] == (1, 2))
# ===
print(3 in [1, 3], 'x' in ['y'], 2 not in (1, 2), 'b' in 'abc', 'z' not in 'abc')
# ===
print([1, [2, 3]], [True, None, 'a', 1.0], ((1, 2), []), [(1,)])
# ===
print([0.1 + 0.2, 1e16, 1e-5, 100000.0, 1e22, -0.0, 3.0])
# ===
print(1e16, 123456789012345680.0, 1e15, 0.0001, 0.00001)
# ===
print(7 // 2, -7 // 2, 7 % -3, -7 % 3, 7.5 // 2, -7.5 % 2, 2 ** 10, 2 ** -1, 2 ** 0.5)
# ===
print(7 / 2, 6 / 2, 1 / 3, 10 ** 3, -2 ** 2, (-2) ** 2)
# ===
print(1 / 0)
# ===
print(1 // 0)
# ===
print(1 % 0)
# ===
print(1.0 / 0)
# ===
print(0 ** -1)
# ===
print(ones(2) / 0)
# ===
print(round(2.5), round(3.5), round(-2.5), round(2.675, 2), round(7), round(1234.5, -2))
# ===
print(int(3.9), int(-3.9), float(3), int('12'), float('1.5'), str(1.0), str([1, 'a']))
# ===
print(int('1.5'))
# ===
print(float('abc'))
# ===
print(bool(0), bool([]), bool([0]), bool(''), bool('a'), bool(0.0), bool({}), bool(None))
# ===
print(True + 1, True == 1, not 0, not [], None is None, 1 != None)
# ===
print(0 or 5, 3 or 5, 0 and 5, 3 and 5, '' or 'x', None or [], [] and 1)
# ===
print(1 < 2 < 3, 1 < 3 < 2, 1 == 1 == 1, 3 > 2 > 1 > 0)
# ===
x = 5
print('big' if x > 3 else 'small', 1 if x < 3 else 2 if x < 5 else 3)
# ===
x = 3
print(x < 5, x > 2)
# ===
print(abs(-3), abs(-2.5), max(1, 2, 3), min(2, 1), max([1, 5, 2]), min([3.5, 2]), sum([0.5, 1]))
# === refused
print(divmod(7, 2), divmod(-7, 2), pow(2, 5))
# === refused
print(9223372036854775807 + 1)
# === refused
x = 2 ** 62
print(x + x)
# === refused
print(0x10, 0b101, 0o17, 1_000_000)
# ===
i = 0
while True:
    i += 1
    if i == 3:
        continue
    if i > 5:
        break
    print(i)
# ===
for i in range(3):
    pass
print(i)
# ===
for i in range(5, 0, -2):
    print(i)
# ===
for i, x in enumerate(['a', 'b']):
    print(i, x)
# ===
for i, x in enumerate([5, 6], 1):
    print(i, x)
# ===
for a, b in zip([1, 2, 3], 'xy'):
    print(a, b)
# ===
for i, (a, b) in enumerate(zip([1, 2], [3, 4])):
    print(i, a, b)
# ===
for c in 'abc':
    print(c)
# ===
for row in arange(4).reshape(2, 2):
    print(row)
# ===
for k in {'a': 1, 'b': 2}:
    print(k)
# ===
d = {'a': 1, 'b': 2}
for k, v in d.items():
    print(k, v)
for v in d.values():
    print(v)
# ===
if []:
    print('yes')
elif 0.0:
    print('no')
else:
    print('else')
# ===
x = 5
if x > 3 and not x == 4 or False:
    print('ok')
# ===
if ones(2):
    print('x')
# ===
if ones(1):
    print('one')
# ===
if zeros((1, 1)):
    print('one')
else:
    print('none')
# ===
while ones(2) > 0:
    break
# ===
print('yes' if ones(2) > 0 else 'no')
# ===
print(not ones(2))
# ===
assert 1 == 1
assert [1], 'no'
print('fine')
# ===
assert 1 == 2, 'different'
# ===
def f(x, y=2):
    return x + y
print(f(1), f(1, 5), f(1, y=3), f(x=4), f(y=1, x=2))
# ===
def f(x, y=2):
    return x + y
f()
# ===
def f(x):
    return x
f(1, 2)
# ===
def f(x):
    return x
f(z=1)
# ===
def f():
    return 1, 2
a, b = f()
print(a, b, f())
# ===
def f():
    pass
print(f())
# ===
def f(x):
    x * 2
print(f(3))
# ===
def f(n):
    return 1 if n < 2 else n * f(n - 1)
print(f(10))
# ===
def f(n):
    if n > 3:
        return 'big'
    print('small')
print(f(1), f(5))
# ===
n = 1
def f():
    n += 1
f()
# ===
n = 1
def f():
    return n + 1
n = 5
print(f())
# ===
def f():
    m = 5
f()
print(m)
# ===
def f(x=[]):
    x.append(1)
    return x
print(f(), f())
# === refused
def make(k):
    def inner(x):
        return x * k
    return inner(3)
print(make(4))
# === refused
def twice(g, x):
    return g(g(x))
def inc(x):
    return x + 1
print(twice(inc, 1))
# ===
def f(x):
    """Adds one."""
    return x + 1
print(f(1))
# ===
def step(g, r, w):
    w -= r * g
w = ones(2)
step(ones(2), 0.5, w)
print(w)
# ===
def norm2(x):
    return float((x * x).sum())
print(norm2(array([3, 4])))
# ===
print([x * x for x in range(5)], [x for x in range(6) if x % 2], [(i, j) for i in range(2) for j in range(2)])
# ===
print([[i * j for j in range(3)] for i in range(2)])
# ===
x = 5
y = [x for x in range(3)]
print(x, y)
# ===
print([i if i > 1 else -i for i in range(4)])
# ===
a, (b, c) = 1, (2, 3)
print(a, b, c)
# ===
a, b = [1, 2]
[c, d] = (3, 4)
print(a, b, c, d)
# ===
a, b = 1, 2, 3
# ===
a, b = array([1, 2])
print(a, b)
# ===
l = [0, 0]
l[0], l[1] = 1, 2
print(l)
# ===
(a, b) = (1, 2)
print(a, b)
# ===
d = {}
d['a'] = 1
d['b'] = [1]
d['b'].append(2)
print(d, len(d), 'a' in d, 'z' in d, list(d), list(d.keys()), list(d.values()), d.get('z'), d.get('z', 3))
# ===
d = {'a': 1}
print(d['zz'])
# ===
d = {'a': 1}
d.update({'b': 2})
print(d.pop('a'), d)
# ===
print({'a': 1} == {'a': 1}, {'a': 1, 'b': 2} == {'b': 2, 'a': 1}, {1: 'x', 2: 'y'})
# === refused
d = dict(a=1, b=2)
print(d, sorted(d), sum(d.values()))
# ===
d = {'a': {'b': [1, 2]}}
print(d['a']['b'][1])
# ===
s = 'hello'
print(s[0], s[-1], s[1:3], s[::-1], len(s), s[10:])
# ===
print('abc'[5])
# ===
s = 'hello'
s[0] = 'j'
# ===
print('a' + 'b', 'ab' * 3, 'a' < 'b', 'abc' == "abc", 'Z' < 'a')
# ===
print('a' + 1)
# ===
print('%d items' % 3, '%s=%s' % ('a', 1.5), '%.2f' % 3.14159, '%5d|%-5d|' % (3, 4), '%%', '%x' % 255)
# === refused
print('{} and {}'.format(1, 'x'), '{0}{1}{0}'.format('a', 'b'), '{n:.2f}'.format(n=2.5))
# ===
x = 3.14159
n = 42
s = 'ab'
print(f'{x:.2f} {n:5d}| {n:<5d}| {n:^6d}| {s:>5}| {s:10s}| {s:^5}| {n:05d} {x:e} {n:,} {1234567:,} {0.256:.1%}')
# ===
x = 3
print(f'{x=} {x!r} {"a"!r} {{x}} {x + 1}')
# ===
w = 8
print(f'{3.5:{w}.2f}|')
# ===
print('a,b,c'.split(','), 'a b  c'.split(), ','.join(['x', 'y']), ' x '.strip(), 'xax'.strip('x'))
# ===
print('Hello'.upper(), 'Hello'.lower(), 'hello'.replace('l', 'L'), 'hello'.find('l'), 'hello'.find('z'), 'hello'.count('l'))
# ===
print('w0.weight'.startswith('w0'), 'w0.weight'.endswith('.weight'), '12'.isdigit(), 'a b'.title(), '7'.zfill(3))
# ===
print('a\tb\\n', 'it\'s', "say \"x\"", 'é', r'a\nb')
# ===
print('one\ntwo')
# ===
print("""a
b""")
# ===
print('a' 'b')
# ===
print(1, 'a', None, True, 2.5)
print()
print('x', 'y', sep='-')
print('no newline', end='!\n')
# ===
print(str(ones(2)), str('a'), repr('a'), repr(1.0))
# ===
print(ord('a'), chr(98))
# ===
print(len([1, 2]), len('abc'), len((1,)), len({'a': 1}), len(ones(3)), len(ones((2, 3))))
# ===
print(type(1) == type(2))
# ===
x = arange(6)
print(x[[1, 3]], x[array([0, 0, 5], dtype='int64')], x[x > 2], x[-1], x[::-1], x[1:5:2])
# ===
x = arange(6).reshape(2, 3)
print(x[0], x[1, 2], x[:, 1], x[0, 1:], x[..., 0], x[None].shape, x[:, None].shape, x[-1, -1])
# ===
x = arange(6).reshape(2, 3)
print(x[[0, 1], [1, 2]], x[[1, 0]], x[:, [2, 0]])
# ===
x = arange(6)
x[[1, 3]] = 9
x[x > 4] += 1
print(x)
# ===
x = arange(6)
x[[1, 1, 1]] += 1
print(x)
# ===
x = arange(6).reshape(2, 3)
x[:, 1] = 7
x[0] = [1, 2, 3]
print(x)
# ===
x = arange(3)
print(x[3])
# ===
x = arange(3)
print(x[[0, 3]])
# ===
x = arange(3)
print(x[0, 0])
# ===
x = arange(3)
x[5] = 1
# ===
x = arange(3)
x[0:2] = [1, 2, 3]
# ===
x = arange(6).reshape(2, 3)
print(x.sum(), x.mean(), x.max(), x.min(), x.sum(axis=0), x.mean(axis=1), x.max(axis=0), x.sum(axis=1, keepdims=True))
# ===
x = arange(6).reshape(2, 3)
print(x.shape, x.size, x.ndim, x.dtype, x.T.shape, x.T)
# ===
x = array([3, 1, 2])
print(sort(x), argsort(x), x.argmax(), x.argmin(), cumsum(x), x.std(), var(x), median(x), x.prod())
# ===
x = array([3, 1, 2, 1])
print(unique(x), nonzero(x > 1)[0], any(x > 2), all(x > 0), outer(x, x).shape, clip(x, 1, 2), flip(x), diff(x))
# ===
x = arange(4)
print(maximum(x, 2), minimum(x, 1), where(x > 1, x, 0), take(x, [0, 2]), repeat(x, 2), tile(x, 2))
# ===
print(concatenate([ones(2), zeros(1)]), stack([ones(2), zeros(2)]), dot(ones((2, 3)), ones((3, 2))), dot(ones(3), ones(3)))
# ===
x = arange(4)
print(x == 2, x != 2, (x > 0) * 1, x.astype('int64'), x.astype('int32').dtype, -x, abs(-x), x ** 2, x % 3, x // 2)
# ===
print(array([1, 2]) == array([1, 3]), array_equal(ones(2), ones(2)))
# ===
print(arange(2, 10, 3), arange(5), zeros((2, 2)), full((2,), 7), ones(0), zeros((0, 3)).shape)
# ===
print(array([[1, 2], [3, 4]]) * array([10, 100]), array([[1], [2]]) + array([10, 20]))
# ===
print(ones(2) + ones(3))
# ===
print(dot(ones((2, 3)), ones((2, 3))))
# ===
print(ones(6).reshape(4, 2))
# ===
print(arange(6).reshape(2, -1), arange(6).reshape((3, 2)))
# ===
print(array([0.1, 0.2, 1e-8, 1e8, 123456.789]))
# ===
print(array([1e10, 1]), array([0.5, 100]), array([1.5, float('nan'), float('inf')]))
# ===
print(arange(1200))
# ===
print(array([True, False], dtype='bool'), array([1, 2], dtype='uint8'), array([1, 2], dtype='float64'), array([1.5], dtype='float16'))
# ===
print(array([1, 2]).astype('float64') + 0.1, array([1, 2]) + 0.1, array([1, 2]) * 0.1)
# ===
print(float(ones(1).sum()), int(ones(3).sum()), ones(3).sum() + 1, ones(3).mean() * 2)
# ===
x = ones(3)
print(x.sum() == 3, x.sum() > 5, 3 == x.sum())
# ===
print(min([2, 1], [1, 9]), max('abc'), sorted('cab'))
# === refused
print(sum([[1], [2]], []))
# ===
print(list(range(3)), list('ab'), tuple([1, 2]), list((1, 2)), list(enumerate(['a'])), list(zip([1], [2])))
# ===
print(any([0, 1]), all([1, 0]), all([]), any([]), any(x > 2 for x in [1, 2, 3]))
# ===
x = 10
x -= 3
x *= 2
x //= 4
x **= 2
x %= 5
print(x)
# ===
x = 7
x /= 2
print(x)
# ===
print(undefined_name)
# ===
undefined_function(3)
# ===
x = 5; y = 6; print(x + y)
# ===
if True: print('a')
for i in range(2): print(i)
# ===
x = (1 +
     2)
y = [1,
     2]
print(x, y)
# ===
x = 1 + \
    2
print(x)
# ===
import numpy as np
print(np.ones(2, dtype='float32') + 1)
# ===
x = None
print(x is None, x is not None, x == None)
# ===
print([1, 2, 3][1], (4, 5)[0], 'abc'[1], [[1, 2], [3]][0][1])
# ===
print(-3 % 5, 3 - -2, +4, --4, 2 * -3, not True == False)
# ===
print(1 == 1.0, 'a' == 1, [1] == [1.0], None == 0)
# ===
print('a' < 1)
# ===
print([1] < 1)
# ===
print(len(5))
# ===
x = [1, 2]
x.foo()
# === refused
print({1, 2})
# === refused
try:
    print(1)
except:
    pass
# === refused
f = lambda x: x + 1
print(f(2))
# === refused
class A:
    pass
# === refused
x = [1, 2, 3]
del x[0]
print(x)
# === refused
a, *b = [1, 2, 3]
print(a, b)
# === refused
print(*[1, 2])
# === refused
print(5 & 3, 5 | 3, ~5, 1 << 3)
# === refused
x = (y for y in [1, 2])
print(sum(x))
# ===
with open('x') as f:
    pass
# ===
raise ValueError('x')
# ===
print({k: 1 for k in ['a', 'b']})
# === refused
while False:
    pass
else:
    print('else')
# === refused
x: int = 3
print(x)
# === refused
def f(*args):
    return len(args)
print(f(1, 2))
# === refused
def f(**kw):
    return kw
print(f(a=1))
# === refused
global z
z = 3
print(z)
# === refused
if (n := 3) > 2:
    print(n)
# ===
print([1, 2, 3] == array([1, 2, 3]))
# ===
x = [1, 2, 3]
y = x
x = x + [4]
print(y, x)
# ===
x = (1, 2)
y = x
x += (3,)
print(x, y)
# ===
def f(a, b=[]):
    b += [a]
    return b
print(f(1), f(2), f(3, [9]))
# ===
l = [[1, 2], [3, 4]]
for r in l:
    r[0] = 0
print(l)
# ===
l = [1, 2, 3]
for x in l:
    x += 1
print(l)
# ===
l = [1, 2, 3, 4]
for x in l:
    if x == 2:
        l.remove(x)
print(l)
# ===
print(1e3, 1.0e-7, 123456.789e3, 5e-324, 1.7976931348623157e308)
# ===
print(str(0.1 + 0.2), 1/3, 2/3, 100/3)
# ===
print(3 * 'ab', 'ab' * -1, [0] * 3, [] * 2)
# ===
print('abc' in ['abc'], 'a' in 'abc', 1 in [1.0], None in [None], [] in [[]])
# ===
print(max('a', 'b'), min(3, 1.5), max([1], [2]), max((1, 2), (1, 3)))
# ===
print(sum([]), sum([1, 2.5]), sum((1, 2)), sum(range(5)), sum([True, True]))
# ===
print(len(range(5)), list(range(5, 2)), list(range(0, -3, -1)))
# ===
a = arange(4)
print(a[a > 1].sum(), (a > 1).sum(), (a * 2)[1:3], a[::2][::-1])
# ===
a = arange(3)
a[1] = 10
b = a * 2
a[0] = 5
print(a, b)
# ===
a = ones((2, 3))
a[1] += 5
a[:, 0] *= 3
a[0, 1:] = [7, 8]
print(a)
# ===
a = zeros(3)
a[[0, 2]] += [1, 2]
print(a)
# ===
a = arange(4).reshape(2, 2)
b = a.T.copy()
b[0, 1] = 100
print(a, b)
# ===
x = 5
def f():
    x = 3
    return x
f2 = f()
print(x, f2)
# ===
def outer(a):
    def sq(v):
        return v * v
    return sq(a) + 1
print(outer(3))
# ===
x = 1
if x == 1:
    y = 2
print(y)
# ===
for i in range(3):
    t = i * 2
print(t, i)
# ===
print('%5.2f|%-8s|%03d|%s' % (3.14159, 'ab', 7, [1, 2]))
# ===
print('%s' % None, '%d' % 3.9, '%i' % 4)
# ===
print(f"{'a':>5}|{3:<5}|{2.5:^7}|{1000000:,}|{0.5:%}|{-3:+d}|{3:+d}")
# ===
print(f"{[1, 2]}", f"{None}", f"{True}", f"{1.0}", f"{'x'}")
# ===
s = 'a-b-c'
print(s.split('-'), '-'.join(s.split('-')[::-1]), s.replace('-', '', 1), s.index('b'), s.rfind('-'))
# ===
print('abc'.index('z'))
# ===
print([1, 2, 3].index(9))
# ===
d = {'b': 1, 'a': 2}
print(sorted(d.items()), list(d), min(d), max(d.values()))
# ===
d = {'a': 1}
for k in d:
    d['z'] = 1
# ===
print({} == {}, {'a': [1]} == {'a': [1]}, not {}, bool({'a': 0}))
# ===
print([1, 2] > [1], (1, 2) >= (1, 2), 'b' > 'abc', [[1], [2]] < [[1], [3]])
# ===
print(1 if [] else 2, 'x' if 0.0 else 'y')
# ===
a, b = 'xy'
print(b, a)
# ===
x = [1, 2, 3]
x[1:2] = [7, 8]
print(x)
# ===
x = [1, 2, 3]
x[0], x[2] = x[2], x[0]
print(x)
# ===
i = 0
x = [0, 0]
i, x[i] = 1, 5
print(i, x)
# ===
print(-7 // 2, -7 % 2, 7 // -2, 7 % -2, -7.5 // 2, 7.5 % -2, 0 // 5)
# ===
print(2 ** 3 ** 2, -2 ** 2, 2 ** -2, (-8) ** 2, 4 ** 0.5)
# ===
print(True + True, True * 3, False == 0, True is True, int(True))
# ===
print(not 1 == 2, not (1 == 2), 1 < 2 == True)
# ===
print(int('  7 '), float(' 1e3 '), int(-0.9), int('-5'))
# ===
print(abs(-0.0), -0.0, 0.0 == -0.0)
# ===
print(array([1, 2, 3]).mean(), array([[1, 2], [3, 4]]).sum(axis=0), array([1, 2, 3]).std())
# ===
print(array([1, 2, 3], dtype='int64') / 2)
# ===
print(array([1, 2, 3], dtype='int64') // 2, array([5, -5], dtype='int32') % 3)
# ===
print(array([1, 2]) @ array([3, 4]))
# ===
c = array([[1, 2], [3, 4]])
v = array([1, -1])
print(c * c @ c, c @ c * c, c @ c ** 2, 2 * c @ v, -c @ v, c + c @ c, c @ c @ v)
# ===
x = arange(6).reshape((2, 3))
w = arange(6).reshape((3, 2))
print(x @ w, w.T @ x.T, x[0] @ w[:, 1], x @ x.T[:, 0], (x @ w).shape)
# ===
print(dot(array([[1, 2], [3, 4]]), array([1, 1])))
# ===
a = ones(3)
b = a
a = a * 2
print(b)
# ===
a = ones(3)
b = a[:]
a = a * 2
print(b)
# ===
a = array([1, 2, 3])
for i in range(len(a)):
    a[i] = a[i] * 2
print(a)
# ===
a = array([1.5, 2.5])
x = a[0]
a[0] = 9
print(x)
# ===
l = [array([1, 2])]
m = l[:]
m[0] += 1
print(l[0])
# ===
m = [[0] * 2 for i in range(2)]
m[0][0] = 1
print(m)
# ===
def f(d):
    d['x'] = 1
q = {}
f(q)
print(q)
# ===
w = {'a': ones(2)}
for k in w:
    w[k] -= 0.5
print(w['a'])
# ===
w = {'a': ones(2)}
for k, v in w.items():
    v *= 3
print(w['a'])
# ===
ws = [ones(2), zeros(2)]
gs = [ones(2), ones(2)]
for w, g in zip(ws, gs):
    w -= 0.1 * g
print(ws[0], ws[1])
# ===
print(zeros(2) == 0, (ones(2) == 1).all(), ones(2).any())
# ===
x = 10
while x:
    x -= 3
    if x < 0:
        break
print(x)
# ===
print('done', 3, sep='')
# ===
print("it's", 'say "hi"', 'tab\there')
# ===
print(chr(65), ord('A'), 'abc'.upper(), 'x'.isdigit(), 'a' < 'B')
# ===
print([x for x in 'abc'], [c.upper() for c in 'ab'], [i for i in range(3) for j in range(i)])
# ===
print({'a': 1}['a'], {'a': 1}.get('b'), {'a': 1}.get('b', 0))
# ===
print([None, True, 1.5, 'x'], (None,), [[]], [()])
# ===
x = 3
x += 0.5
print(x)
# ===
n = 0
for i in range(10):
    if i % 2: continue
    n += i
print(n)
# ===
def fib(n):
    a, b = 0, 1
    for i in range(n):
        a, b = b, a + b
    return a
print([fib(i) for i in range(10)])
# === refused
def f(x, *, y=1):
    return x + y
print(f(1, y=2))
# ===
print(sorted([3, 1, 2]), sorted(['b', 'a']), sorted([2, 1], reverse=True), sorted([1.5, 1]))
# === refused
print(list(map(str, [1, 2])))
# ===
print(type(1))
# === refused
print(all([1, 2]), any([]), all([[]]))
# ===
print(arange(3) + [1, 2, 3])
# ===
print([1, 2, 3] + arange(3))
# ===
print(2 * array([1, 2]) + [1, 1])
# ===
a = arange(3)
a += [1, 2, 3]
print(a)
# === refused
l = [1, 2]
l += array([3, 4])
print(l)
# ===
print(array([1, 2]) + 'x')
# ===
print(None + 1)
# ===
print(-'a')
# === refused
x = [3, 1]
print(x.sort())
# ===
x = 3
x()
# ===
print(len(None))
# ===
x = 3
print(x[0])
# ===
for i in 5:
    print(i)
# ===
print(undefined.shape)
# ===
print(ones(2).foo)
# ===
def f():
    return g()
def g():
    return 4
print(f())
# ===
print(h())
def h():
    return 1
# ===
if 1:
    print('a')
  print('b')
# ===
print('a'
# ===
m = array([True, False, True], dtype='bool')
print(arange(3)[m], arange(3)[[True, False, True]], m.dtype)
