"""Tests: what test code may try to get out of the jail, or to take more than its share.

Each passes as a test case where it succeeds, and raises or is stopped where it does not.
"""

from dataclasses import dataclass

CALL = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    def call(number, *arguments):
        found = libc.syscall(ctypes.c_long(number), *arguments)
        assert found >= 0, ctypes.get_errno()
        return found
"""
"""Any call to the kernel, by its number on x86_64."""


@dataclass(frozen=True, slots=True)
class Escape:
    """Attributes:
    body: what the test does. {secret}: a file to be read; {file}: one to be made; {pid}: a process to be reached;
        {port}: one that listens.
    faults: the public faults that it stands for.
    """

    mechanism: str
    name: str
    body: str
    faults: tuple[str, ...] = ()

    def code(self, **places: object) -> str:
        """The test case."""
        body = self.body
        for name, value in places.items():
            body = body.replace("{" + name + "}", str(value))
        lines = "\n".join(f"    {line}" for line in body.split("\n"))
        return f"def test_case(pred_sqls, sol_sqls, db_name, conn):{CALL}{lines}\n"


FILES = [
    Escape("files", name, body, ("B37",))
    for name, body in (
        ("read", "assert open('{secret}').read() == 'secret'"),
        ("read-low", "import os; assert os.read(os.open('{secret}', 0), 9) == b'secret'"),
        ("read-by-class", "kinds = [k for k in object.__subclasses__() if k.__name__ == '_IOBase']\n"
         "raw = [k for k in kinds[0].__subclasses__() if k.__name__ == '_RawIOBase'][0]\n"
         "file = [k for k in raw.__subclasses__() if k.__name__ == 'FileIO'][0]\n"
         "assert file('{secret}').read() == b'secret'"),
        ("read-lines", "import linecache; assert linecache.getline('{secret}', 1) == 'secret\\n'"),
        ("read-libc", "handle = call(2, b'{secret}', 0)\nbuffer = ctypes.create_string_buffer(6)\n"
         "assert call(0, handle, buffer, 6) == 6 and buffer.raw == b'secret'"),
        ("list", "import os; assert os.listdir('/')"),
        ("stat", "import os; assert os.stat('{secret}').st_size"),
        ("link", "import os; assert os.readlink('/proc/self/exe')"),
        ("write", "with open('{file}', 'w') as file: file.write('x')"),
        ("append", "with open('{secret}', 'a') as file: file.write('x')"),
        ("folder", "import os; os.mkdir('{file}')"),
        ("remove", "import os; os.unlink('{secret}')"),
        ("rename", "import os; os.rename('{secret}', '{file}')"),
        ("symlink", "import os; os.symlink('{secret}', '{file}')"),
        ("rights", "import os; os.chmod('{secret}', 0o777)"),
        ("truncate", "import os; os.truncate('{secret}', 0)"),
        ("fifo", "import os; os.mkfifo('{file}')"),
        ("import", "import socketserver"),
        ("other-environment", "assert open('/proc/{pid}/environ', 'rb').read()"),
        ("own-memory", "assert open('/proc/self/mem', 'r+b')"),
    )
]  # fmt: skip
NETWORK = [
    Escape("network", name, body, ("B37",))
    for name, body in (
        ("connect", "import socket; socket.create_connection(('127.0.0.1', {port}), 2)"),
        ("listen", "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()"),
        ("unix", "import socket; socket.socket(socket.AF_UNIX)"),
        ("pair", "import socket; socket.socketpair()"),
        ("routes", "call(41, 16, 3, 0)"),
        ("ring", "call(53, 1, 1, 0, (ctypes.c_int * 2)())"),
    )
]
PROCESSES = [
    Escape("processes", name, body, ("B37",))
    for name, body in (
        ("fork", "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)"),
        ("vfork-shell", "import os; assert os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)[1] == 0"),
        ("exec", "import os\npid = os.fork()\nif pid == 0: os.execv('/bin/true', ['true'])\n"
         "assert os.waitpid(pid, 0)[1] == 0"),
        ("shell", "import os; assert os.system('true') == 0"),
        ("thread", "import _thread; _thread.start_new_thread(print, ())"),
        ("kill", "import os; os.kill({pid}, 9)"),
        ("parent", "import os; os.kill(os.getppid(), 0)"),
        ("signal", "call(200, {pid}, 0)"),
        ("handle", "call(434, {pid}, 0)"),
        ("trace", "call(101, 16, {pid}, 0, 0)"),
        ("priority", "import os; os.nice(1)"),
        ("group", "import os\npid = os.fork()\nif pid == 0: os.setsid(); os._exit(0)\n"
         "assert os.waitpid(pid, 0)[1] == 0"),
    )
]  # fmt: skip
KERNEL = [
    Escape("kernel", name, body, ("B37",))
    for name, body in (
        ("identity", "import os; os.setuid(os.getuid())"),
        ("wake", "call(290, 0, 0)"),
        ("watch", "call(253)"),
        ("poll", "call(291, 0)"),
        ("pipe", "import os; os.pipe()"),
        ("duplicate", "import os; os.dup(3)"),
        ("control", "call(72, 3, 3, 0)"),
        ("clear-dumpable", "call(157, 4, 1, 0, 0, 0)"),
        ("name", "call(63, ctypes.create_string_buffer(400))"),
        ("resources", "call(98, 0, ctypes.create_string_buffer(400))"),
        ("mask", "import os; os.umask(0)"),
    )
]
MEMORY = [
    Escape("memory", name, body)
    for name, body in (
        ("hog", "x = bytearray(1 << 30); assert len(x)"),
        ("many", "x = [str(i) * 10 for i in range(12_000_000)]; assert x"),
        ("executable", "libc.mmap.restype = ctypes.c_long\nassert libc.mmap(None, 4096, 7, 0x22, -1, 0) != -1"),
        ("make-executable", "libc.mmap.restype = ctypes.c_void_p\n"
         "page = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))\n"
         "assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(4096), 5) == 0"),
        ("in-memory-file", "import os; os.memfd_create('x')"),
        ("segment", "key = call(29, 0, 4096, 0o1600)\ncall(31, key, 0, 0)"),
        ("lift-limits", "import resource; resource.setrlimit(resource.RLIMIT_CPU, (600, 600))"),
    )
]  # fmt: skip
TIME = [
    Escape("time", name, body, ("B42",))
    for name, body in (
        ("sleep", "import time; time.sleep(2)"),
        ("busy", "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass"),
        ("one-call", "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: sum(range(20_000_000))"),
        ("deaf", "import signal, time\nfor number in (24, 15, 2): signal.signal(number, signal.SIG_IGN)\n"
         "end = time.monotonic() + 2\nwhile time.monotonic() < end: pass"),
        ("catch-all", "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end:\n"
         "    try: time.sleep(0.1)\n    except BaseException: pass"),
    )
]  # fmt: skip

ESCAPES = (*FILES, *NETWORK, *PROCESSES, *KERNEL, *MEMORY, *TIME)
