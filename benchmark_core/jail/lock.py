"""Benchmark core: the kernel's locks around test code: seccomp, Landlock, limits. Standard library only; Linux, x86_64.

What is locked needs nothing any more: all modules are imported before. So the lock allows no file access at all, and
of the calls to the kernel only those that an interpreter needs to compute and to use its one connection.
Sources: linux/seccomp.h, linux/landlock.h, seccomp(2), landlock(7).
"""

import ctypes
import errno
import os
import platform
import resource
import struct

JOB_FD = 3
_UID = 65_219  # nobody else's
_MEGABYTE = 1 << 20

_PR_PDEATHSIG, _PR_DUMPABLE, _PR_SECCOMP, _PR_NO_NEW_PRIVS = 1, 4, 22, 38
_SIGKILL = 9
_READ, _WRITE, _MMAP, _MPROTECT = 0, 1, 9, 10
_FREE_CALLS = {
    "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sched_yield": 24,
    "mremap": 25, "madvise": 28, "nanosleep": 35, "getpid": 39, "exit": 60, "gettimeofday": 96, "sigaltstack": 131,
    "gettid": 186, "time": 201, "futex": 202, "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229,
    "clock_nanosleep": 230, "exit_group": 231, "getrandom": 318,
}  # fmt: skip
_MUST_FAIL = {
    "stat": 4, "ioctl": 16, "dup": 32, "socket": 41, "clone": 56, "fork": 57, "execve": 59, "kill": 62, "fcntl": 72,
    "ptrace": 101, "prctl": 157, "tkill": 200, "openat": 257, "open": 2,
}  # fmt: skip
_ARCH_X86_64, _X32 = 0xC000003E, 0x40000000
_KILL, _ALLOW, _DENY = 0x80000000, 0x7FFF0000, 0x00050000 | errno.EPERM
_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class LockError(OSError):
    """The machine refuses a lock."""


def drop_rights() -> None:
    """Give up root, new privileges, and being looked into. Raises: LockError."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_UID, _UID, _UID)
        os.setresuid(_UID, _UID, _UID)
        if os.getresuid() != (_UID,) * 3 or os.getresgid() != (_UID,) * 3 or os.getgroups():
            raise LockError(errno.EPERM, "root was not given up")
    _prctl(_PR_NO_NEW_PRIVS, 1)
    _prctl(_PR_DUMPABLE, 0)
    die_with_parent()


def die_with_parent() -> None:
    """Have the kernel end this process when the one that made it ends."""
    _prctl(_PR_PDEATHSIG, _SIGKILL)


def deny_files() -> None:
    """Landlock without any rule: no file, no TCP port, as far as this kernel knows. Raises: LockError."""
    version = _libc.syscall(444, None, ctypes.c_size_t(0), 1)
    if version < 1:
        raise LockError(ctypes.get_errno(), "landlock_create_ruleset")
    files = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    rights = [files, *([3] if version >= 4 else []), *([3] if version >= 6 else [])]
    ruleset = struct.pack(f"{len(rights)}Q", *rights)
    handle = _libc.syscall(444, ruleset, ctypes.c_size_t(len(ruleset)), 0)
    if handle < 0 or _libc.syscall(446, handle, 0):
        raise LockError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(handle)


def limit(cpu_s: int) -> None:
    """Hard limits on time, memory, processes, files."""
    for what, most in (
        (resource.RLIMIT_AS, 512 * _MEGABYTE),
        (resource.RLIMIT_STACK, 8 * _MEGABYTE),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, JOB_FD + 1),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))


def deny_calls() -> None:
    """Allow only the calls that computing needs, and check that the rest fails. Raises: LockError."""
    if platform.machine() != "x86_64":
        raise LockError(errno.ENOSYS, f"no filter for {platform.machine()}")
    code = _filter()
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _prctl(_PR_SECCOMP, 2, ctypes.addressof(program))
    for name, number in _MUST_FAIL.items():
        if _libc.syscall(number, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
            raise LockError(errno.EPERM, f"{name} is not denied")


def _prctl(option: int, value: int, more: int = 0) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise LockError(ctypes.get_errno(), f"prctl {option}")


def _filter() -> bytes:
    """The filter program. `struct seccomp_data`: call at 0, architecture at 4, arguments of 8 bytes from 16."""
    steps = [_step(_LD, 4), _step(_JEQ, _ARCH_X86_64, 1, 0), _step(_RET, _KILL)]
    steps += [_step(_LD, 0), _step(_JGE, _X32, 0, 1), _step(_RET, _KILL)]
    for number in _FREE_CALLS.values():
        steps += [_step(_JEQ, number, 0, 1), _step(_RET, _ALLOW)]
    steps += _only_if(_READ, [_step(_LD, 20), _step(_JEQ, 0, 0, 3), _step(_LD, 16), _step(_JEQ, JOB_FD, 0, 1)])
    ours = [_step(_JEQ, descriptor, 3 - descriptor, 0) for descriptor in (1, 2)]
    steps += _only_if(_WRITE, [_step(_LD, 20), _step(_JEQ, 0, 0, 5), _step(_LD, 16), *ours, _step(_JEQ, JOB_FD, 0, 1)])
    never_executable = [_step(_LD, 32), _step(_JSET, 4, 1, 0)]
    steps += _only_if(_MPROTECT, never_executable)
    steps += _only_if(_MMAP, [_step(_LD, 32), _step(_JSET, 4, 3, 0), _step(_LD, 40), _step(_JSET, 0x20, 0, 1)])
    return b"".join([*steps, _step(_RET, _DENY)])


def _only_if(number: int, conditions: list[bytes]) -> list[bytes]:
    """The conditions end by falling through to ALLOW, or by jumping over it to DENY."""
    body = [*conditions, _step(_RET, _ALLOW), _step(_RET, _DENY)]
    return [_step(_JEQ, number, 0, len(body)), *body]


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)
