# Files of PyTorch that lie: bombs, views beyond their storage, calls. Every one is refused at once, with
# the tensor and the reason, and nothing of it is called. fuzz/fuzz_torch.c has more.

load help
# Makes the files in the current folder.
make_files()
{
    command -v python3 >/dev/null || skip "no python3"
    python3 - <<'END'
import struct, zipfile
def s(t): b=t.encode(); return b'X'+struct.pack('<I',len(b))+b
def i(n): return b'J'+struct.pack('<i',n)
def tensor(key,numel,offset,size,stride,cls=b'FloatStorage'):
    tup=lambda x: b'('+b''.join(map(i,x))+b't'
    return (b'ctorch._utils\n_rebuild_tensor_v2\n((' + s('storage')+b'ctorch\n'+cls+b'\n'+s(key)+s('cpu')+i(numel)+b'tQ'+i(offset)+tup(size)+tup(stride)+b'\x89ccollections\nOrderedDict\n)RtR')
def pt(name,pkl,members={'0':bytes(16)},how=zipfile.ZIP_STORED):
    with zipfile.ZipFile(name,'w',how) as z:
        z.writestr('m/data.pkl',pkl)
        for k,v in members.items(): z.writestr('m/data/'+k,v)
def dict_of(value,key='w'): return b'\x80\x02}'+s(key)+value+b's.'
# lists of lists that share their parts: 10^30 numbers, if they were counted one by one
memo = b'\x80\x02(' + b'K\x01' * 10 + b'lq\x000'
for k in range(1, 30):
    memo += b'(' + (b'h' + bytes([k - 1])) * 10 + b'lq' + bytes([k]) + b'0'
pt('memo.pt', memo + b'h\x1d.')
pt('deep.pt',b'\x80\x02'+b']'*5000+b'a'*4999+b'.')
pt('zip.pt',dict_of(tensor('0',1<<28,0,(1<<28,),(1,))),{'0':bytes(1<<20)},zipfile.ZIP_DEFLATED)
pt('beyond.pt',dict_of(tensor('0',4,1,(4,),(1,))))
pt('stride.pt',dict_of(tensor('0',4,0,(2,2),(2147483647,1))))
pt('size.pt',dict_of(tensor('0',5,0,(5,),(1,))))
pt('gone.pt',dict_of(tensor('7',4,0,(4,),(1,))))
pt('wide.pt',dict_of(tensor('0',4,0,(2147483647,64),(0,0))))
pt('slash.pt',dict_of(tensor('../0',4,0,(4,),(1,))))
pt('call.pt',dict_of(b'cos\nsystem\n('+s('touch called')+b'tR'))
pt('none.pt',dict_of(b'ctorch._utils\n_rebuild_parameter\n(NtR'))
pt('few.pt',dict_of(b'ctorch._utils\n_rebuild_parameter\n)R'))
pt('class.pt',dict_of(b'ctorch._tensor\n_rebuild_from_type_v2\n(NNNtR'))
pt('long.pt',b'\x80\x02X\xff\xff\xff\x7fab.')
pt('proto0.pt',b'(dp0\n.')
pt('shared.pt',b'\x80\x02}('+s('a')+tensor('0',4,0,(4,),(1,))+s('b')+tensor('0',4,1,(2,),(2,))+b'u.',{'0':struct.pack('<4f',1,2,3,4)})
# keys that are one name, and one of them is not a text
for name, first, second in (('true', s('True'), b'\x88'), ('none', s('None'), b'N'), ('1.5', s('1.5'), b'G' + struct.pack('>d', 1.5)), ('1', s('1'), i(1))):
    one, two = tensor('0', 4, 0, (2,), (1,)), tensor('0', 4, 2, (2,), (1,))
    pt(f'key-{name}.pt', b'\x80\x02}(' + first + one + second + two + b'u.')
    pt(f'keys-{name}.pt', b'\x80\x02}' + s('a') + b'}(' + first + b'}' + s('x') + one + b's' + second + b'}' + s('y') + two + b'sus.')
# the data of the first member reach into the second one
pt('over.pt', dict_of(tensor('0', 4, 0, (4,), (1,))), {'0': bytes(16), '1': bytes(160)})
d = bytearray(open('over.pt', 'rb').read())
for k in range(len(d) - 4):
    entry = d[k:k + 4] == b'PK\1\2'
    if (entry or d[k:k + 4] == b'PK\3\4') and d[k + (46 if entry else 30):].startswith(b'm/data/0'):
        d[k + (20 if entry else 18):k + (28 if entry else 26)] = struct.pack('<2I', 100, 100)
open('over.pt', 'wb').write(d)
END
}

# refused FILE TEXT
refused()
{
    opens -5 "error[format]: $1: $2" timeout 60 kvctl hash "$1"
    run -5 timeout 60 kvctl convert "$1" out.safetensors
    [ ! -e out.safetensors ]
}

@test "hostile files of PyTorch: bombs" {
    make_files
    refused memo.pt 'more than 4000000 names, or 256 MB of them, which is not read'
    refused deep.pt 'malformed: values in more than 1000 others'
    refused zip.pt 'tensor "w" has a storage of another size than its member'
    refused wide.pt 'tensor "w" has more than 64 times the bytes of its storage'
    refused long.pt 'malformed pickle: it is cut at byte 2'
}

@test "hostile files of PyTorch: storages" {
    make_files
    refused beyond.pt 'tensor "w" goes beyond its storage'
    refused stride.pt 'tensor "w" goes beyond its storage'
    refused size.pt 'tensor "w" has a storage of another size than its member'
    refused gone.pt 'tensor "w" has a storage that is not in the archive'
    refused slash.pt 'tensor "w" has a storage that is not in the archive'
    refused over.pt 'members overlap at byte 242'
    gives '[1. 2. 3. 4.] [2. 4.]' kvctl -c 'print @shared.pt#a, @shared.pt#b'
}

@test "hostile files of PyTorch: two keys of one name" {
    make_files
    for name in True None 1.5 1; do
        mentions -3 "error[value]: key-${name,,}.pt: the keys \"$name\" and $name give one name" kvctl ls "key-${name,,}.pt"
        mentions -3 "error[value]: key-${name,,}.pt: the keys \"$name\" and $name give one name" kvctl ls "key-${name,,}.pt#$name"
        mentions -3 "error[value]: keys-${name,,}.pt: the keys \"$name\" and $name of a give one name" kvctl ls "keys-${name,,}.pt"
    done
}

@test "hostile files of PyTorch: nothing is called" {
    make_files
    refused call.pt 'w is a os.system, which only Python can make'
    refused class.pt 'w is a Python object, which only Python can make'
    refused few.pt 'malformed: a parameter without a tensor at w'
    gives $'0 keys, 0 elements, 0 bytes; 1 entry is not a tensor (w), which --all shows' kvctl ls none.pt
    refused proto0.pt 'malformed pickle: no protocol at byte 0'
    [ ! -e called ]
}
