"""Decide what a foreign program and its children may touch, and launch it so confined.

On Linux that is Landlock: this file, run as a script, confines itself and then becomes
the program. Programs that put their own commands into a sandbox of mounts, which
Landlock forbids, are confined with bubblewrap. On macOS it is a sandbox-exec profile.
As a script this file imports as little as possible (no pathlib), because every call of
a runtime starts with it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing itself would be the largest import of the launcher
if TYPE_CHECKING:
    from ctypes import CDLL

LANDLOCK = "landlock"
BUBBLEWRAP = "bubblewrap"
SEATBELT = "sandbox-exec"
SEATBELT_PROGRAM = "/usr/bin/sandbox-exec"
NOT_CONFINED = 125
"""The exit code of the launcher if it could not confine itself; then it does not start
the program.
"""

# From /etc only what programs need to find libraries, names and certificates, and what
# an administrator configured for agents.
_ETC = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "fonts",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "machine-id",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki",
    "profile",
    "profile.d",
    "protocols",
    "resolv.conf",
    "services",
    "shells",
    "ssl",
    "terminfo",
    "timezone",
    "claude-code",
    "codex",
    "gemini-cli",
    "opencode",
]
_FOLDERS = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/home/linuxbrew",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/current-system",
]
SYSTEM = (*_FOLDERS, *(f"/etc/{name}" for name in _ETC))
XDG_FOLDERS = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
}
_KERNEL = ("/proc", "/sys")
_DEVICES = [
    f"/dev/{name}"
    for name in [
        "null",
        "zero",
        "full",
        "random",
        "urandom",
        "tty",
        "ptmx",
        "pts",
        "shm",
    ]
]
_MOST_LINKS = 4
_FIRST_LINE_BYTES = 256

# From linux/landlock.h. System call numbers are the same on every processor.
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_EXECUTE = 1
_WRITE_FILE = 2
_READ_FILE = 4
_READ_DIR = 8
_RIGHTS_OF_ABI_1 = (1 << 13) - 1
# The version of Landlock that brought refer, truncate, and ioctl of devices.
_LATER_RIGHTS = (
    (2, 1 << 13),
    (3, 1 << 14),
    (5, 1 << 15),
)
_READING = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
_CAPABILITIES_VERSION = 0x20080522
# From this version on, abstract sockets and signals can be kept inside.
_SCOPED_SINCE = 6
_SCOPES = 3
_RULESET_SIZES = ((6, 24), (4, 16), (1, 8))
_PORTS_SINCE = 4
_CONNECT_TCP = 2
_NET_PORT = 2

# From linux/seccomp.h, linux/filter.h and linux/audit.h, with the numbers of the calls
# on the processors we know.
_SET_SECCOMP = 22
_SECCOMP_FILTER = 2
_LOAD = 0x20
_RETURN = 0x06
_JUMP_EQUAL = 0x15
_JUMP_AT_LEAST = 0x35
_JUMP_ANY_BIT = 0x45
_RETURN_ERROR = 0x00050000
_RETURN_ALLOW = 0x7FFF0000
_NUMBER_AT = 0
_ARCHITECTURE_AT = 4
_OTHER_NUMBERS = 0x40000000  # x32
_IO_URING_SETUP = 425
# SMC is 256, MPTCP 262
_FAMILY_SMC = 43
_PROTOCOLS_BEYOND = 256
_SEND_AND_CONNECT = 0x20000000  # MSG_FASTOPEN
_CALLS = {
    "x86_64": (0xC000003E, 41, 44, 46, 307),
    "aarch64": (0xC00000B7, 198, 206, 211, 269),
}


class Confinement:
    """The paths a program may read and write, its home and temporary folder, and the
    mechanism that enforces this.
    """

    def __init__(
        self,
        mechanism: str,
        *,
        read: tuple[str, ...] = (),
        write: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
        home: str | None = None,
        temporary: str | None = None,
        helper: str = "",
        connect: tuple[range, ...] | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.read = read
        self.write = (*write, *(folder for folder in (home, temporary) if folder))
        self.hidden = hidden
        self.home = home
        self.temporary = temporary
        self.helper = helper
        self.connect = connect
        """The TCP ports it may connect to, if the kernel can enforce that; None means
        all.
        """

    def environment(self) -> dict[str, str]:
        """Return the variables that name the program's home and temporary folder."""
        variables = {}
        if self.temporary:
            variables["TMPDIR"] = self.temporary
        if self.home:
            variables["HOME"] = self.home
            for variable, folder in XDG_FOLDERS.items():
                variables[variable] = os.path.join(self.home, folder)
        return variables

    def wrap(self, argv: list[str], cwd: str, python: tuple[str, ...]) -> list[str]:
        """Return the command that starts `argv` confined.

        `python` runs this file as a script.
        """
        ports = self._port_words()
        if self.mechanism == BUBBLEWRAP:
            # Inside, links on PATH do not exist, and a script looks for its packages
            # beside the real file.
            inside = [*self._bubblewrap(cwd), os.path.realpath(argv[0]), *argv[1:]]
            if not ports:
                return inside
            # Landlock with a rule about ports only does not forbid mounts.
            return [*python, __file__, *ports, "--", *inside]
        if self.mechanism == SEATBELT:
            return [SEATBELT_PROGRAM, "-p", self.seatbelt_profile(), *argv]
        readable = (*visible(SYSTEM, self.hidden), *_KERNEL, *self.read)
        words = []
        for path in readable:
            words += ["-r", path]
        for path in (*self.write, *_DEVICES):
            words += ["-w", path]
        return [*python, __file__, *words, *ports, "--", *argv]

    def _port_words(self) -> list[str]:
        if self.connect is None or not holds_ports():
            return []
        words = ["-n", ""]  # there is a rule, even if it allows nothing
        for span in self.connect:
            words += ["-c", f"{span[0]}-{span[-1]}"]
        return words

    def _bubblewrap(self, cwd: str) -> list[str]:
        # A separate process table, because everything could be read through
        # /proc/<pid>/root of a process outside.
        argv = [
            self.helper,
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--die-with-parent",
        ]
        argv += [
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--tmpfs",
            "/tmp",
            "--tmpfs",
            "/run",
        ]
        readable = [*visible(SYSTEM, self.hidden), *self.read]
        options = dict.fromkeys(readable, "--ro-bind-try")
        options |= dict.fromkeys(self.write, "--bind-try")
        for path in sorted(options):  # a folder comes before what is in it
            argv += [options[path], path, path]
        return [*argv, "--chdir", cwd, "--"]

    def seatbelt_profile(self) -> str:
        """Return the profile for sandbox-exec.

        Its text is tested, but it has not been tried on a Mac.
        """
        hidden = _subpaths((*self.hidden, "/Volumes"))
        write = _subpaths((*self.write, "/dev"))
        rules = [
            "(version 1)",
            "(allow default)",
            f"(deny file-read-data{hidden})",
            "(deny file-write*)",
        ]
        if self.read or self.write:
            readable = _subpaths((*self.read, *self.write))
            rules.append(f"(allow file-read-data{readable})")
        rules.append(f"(allow file-write*{write})")
        return "\n".join(rules)


def visible(folders: tuple[str, ...], hidden: tuple[str, ...]) -> list[str]:
    """Return `folders` without what is hidden.

    A folder that contains a hidden one is replaced by its other entries.
    """
    shown: list[str] = []
    for folder in folders:
        contains_hidden = any(is_within(path, folder) for path in hidden)
        if not contains_hidden:
            shown.append(folder)
        elif folder not in hidden:
            entries = [os.path.join(folder, name) for name in _names_in(folder)]
            shown += visible(tuple(sorted(entries)), hidden)
    return shown


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def installation(program: str, search_path: str) -> tuple[str, ...]:
    """Return what a program needs to start: itself, its packages, and the interpreter
    that its first line names.
    """
    found: dict[str, None] = {}
    pending: str | None = program
    for _ in range(_MOST_LINKS):
        if pending is None:
            break
        real = os.path.realpath(pending)
        before, packages, _ = real.partition("/node_modules/")
        found[before + "/node_modules" if packages else real] = None
        folder = os.path.dirname(real)
        library = os.path.join(os.path.dirname(os.path.dirname(real)), "lib")
        if os.path.basename(folder) == "bin":
            found[library] = None
        pending = _interpreter(real, search_path)
        if pending is not None:
            found[pending] = None
    return tuple(found)


def mechanism_here(bubblewrap: str | None) -> tuple[str, str] | None:
    """Return the mechanism that can confine programs here and its helper, or None.

    `bubblewrap` is the path of the program, used if the kernel has no Landlock.
    """
    if sys.platform == "darwin":
        is_usable = os.path.exists(SEATBELT_PROGRAM)
        return (SEATBELT, SEATBELT_PROGRAM) if is_usable else None
    if landlock_version():
        return LANDLOCK, ""
    return (BUBBLEWRAP, bubblewrap) if bubblewrap else None


def landlock_version() -> int:
    """Return the version of Landlock this kernel has, or 0."""
    if sys.platform != "linux":
        return 0
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    version = int(libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))
    return max(0, version)


def holds_ports() -> bool:
    """Return whether this kernel can restrict the TCP ports of a program."""
    return landlock_version() >= _PORTS_SINCE


def confine(
    read: list[str], write: list[str], connect: list[range] | None = None
) -> None:
    """Confine this process and everything it starts with Landlock, for good.

    `connect` are the TCP ports that may be connected to; None means all. If only ports
    are given, access to files is not restricted.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    version = landlock_version()
    if not version:
        raise OSError("this kernel has no Landlock")
    holds_files = bool(read or write)
    rights = _rights_of(version)
    scopes = _SCOPES if version >= _SCOPED_SINCE and holds_files else 0
    ports = _CONNECT_TCP if connect is not None and version >= _PORTS_SINCE else 0
    rules = _create_ruleset(libc, version, rights if holds_files else 0, ports, scopes)
    for path in read:
        _allow(libc, rules, path, _READING & rights)
    for path in write:
        _allow(libc, rules, path, rights)
    if ports:
        _allow_ports(libc, rules, connect or [])
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    if ports:
        _close_ways_around_ports(libc)
    if os.geteuid() == 0 and holds_files:
        _drop_capabilities(libc)
    _checked(libc.syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def _drop_capabilities(libc: CDLL) -> None:
    """Give up root's capabilities, which reach the environments of other processes."""
    import ctypes

    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    no_capabilities = (ctypes.c_uint32 * 6)()
    _checked(libc.capset(header, no_capabilities))


def _rights_of(version: int) -> int:
    """Return every right over files that this version of Landlock knows."""
    rights = _RIGHTS_OF_ABI_1
    for since, right in _LATER_RIGHTS:
        if version >= since:
            rights |= right
    return rights


def _create_ruleset(
    libc: CDLL, version: int, rights: int, ports: int, scopes: int
) -> int:
    """Return the file descriptor of a new ruleset."""
    import ctypes

    size = next(size for since, size in _RULESET_SIZES if version >= since)
    ruleset = (ctypes.c_uint64 * 3)(rights, ports, scopes)
    return _checked(
        libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    )


def _allow(libc: CDLL, rules: int, path: str, rights: int) -> None:
    import ctypes

    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return  # a path that does not exist needs no rule
    is_folder = os.path.isdir(f"/proc/self/fd/{handle}")
    allowed = rights if is_folder else rights & _OF_FILES
    # The struct is packed: 12 bytes.
    rule = allowed.to_bytes(8, sys.byteorder) + handle.to_bytes(4, sys.byteorder)
    buffer = ctypes.create_string_buffer(rule, 12)
    _checked(libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, buffer, 0))
    os.close(handle)


def _allow_ports(libc: CDLL, rules: int, spans: list[range]) -> None:
    import ctypes

    rule = (ctypes.c_uint64 * 2)(_CONNECT_TCP, 0)
    pointer = ctypes.byref(rule)
    add = libc.syscall
    for span in spans:
        for port in span:  # a range may have thousands
            rule[1] = port
            if add(_ADD_RULE, rules, _NET_PORT, pointer, 0) < 0:
                _checked(-1)


def port_filter(machine: str) -> list[tuple[int, int, int, int]]:
    """Return a seccomp program that refuses the ways to a TCP server Landlock misses.

    These are sockets of protocols that fall back to TCP (MPTCP, SMC), data sent while
    a connection opens, and io_uring, which gets both past a filter. The program is
    empty for processors we have not tried.
    """
    numbers = _CALLS.get(machine)
    if numbers is None:
        return []
    architecture, socket, sendto, sendmsg, sendmmsg = numbers
    refuse = _RETURN_ERROR
    allow = _RETURN_ALLOW
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, refuse | 38),  # ENOSYS: calls of another kind of program
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_AT_LEAST, 0, 1, _OTHER_NUMBERS),
        (_RETURN, 0, 0, refuse | 38),
        (_JUMP_EQUAL, 0, 1, _IO_URING_SETUP),
        (_RETURN, 0, 0, refuse | 38),
        (_JUMP_EQUAL, 0, 6, socket),
        (_LOAD, 0, 0, _argument_at(0)),
        (_JUMP_EQUAL, 0, 1, _FAMILY_SMC),
        (_RETURN, 0, 0, refuse | 97),  # EAFNOSUPPORT
        (_LOAD, 0, 0, _argument_at(2)),
        (_JUMP_AT_LEAST, 0, 1, _PROTOCOLS_BEYOND),
        (_RETURN, 0, 0, refuse | 93),  # EPROTONOSUPPORT
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    for call, flags in ((sendto, 3), (sendmsg, 2), (sendmmsg, 3)):
        program += [
            (_JUMP_EQUAL, 0, 4, call),
            (_LOAD, 0, 0, _argument_at(flags)),
            (_JUMP_ANY_BIT, 0, 1, _SEND_AND_CONNECT),
            (_RETURN, 0, 0, refuse | 95),  # EOPNOTSUPP
            (_LOAD, 0, 0, _NUMBER_AT),
        ]
    return [*program, (_RETURN, 0, 0, allow)]


def _argument_at(place: int) -> int:
    return 16 + 8 * place  # the lower half, on the processors in _CALLS


def _close_ways_around_ports(libc: CDLL) -> None:
    import ctypes

    program = port_filter(os.uname().machine)
    if not program:
        return
    code = b"".join(
        operation.to_bytes(2, sys.byteorder)
        + bytes((hit, miss))
        + value.to_bytes(4, sys.byteorder)
        for operation, hit, miss, value in program
    )
    buffer = ctypes.create_string_buffer(code, len(code))
    header = (ctypes.c_uint64 * 2)(len(program), ctypes.addressof(buffer))
    # The result does not matter: without seccomp, the rule of Landlock still holds.
    libc.prctl(_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(header), 0, 0)


def _checked(result: int) -> int:
    if result < 0:
        import ctypes

        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _subpaths(paths: tuple[str, ...]) -> str:
    escaped = (path.replace("\\", "\\\\").replace('"', '\\"') for path in paths)
    return "".join(f' (subpath "{path}")' for path in escaped)


def _interpreter(script: str, search_path: str) -> str | None:
    """Return the interpreter that the first line of a script names."""
    try:
        with open(script, "rb") as file:
            beginning = file.read(_FIRST_LINE_BYTES)
    except OSError:
        return None
    line = beginning.partition(b"\n")[0].decode("utf-8", "replace")
    if not line.startswith("#!"):
        return None
    words = line.removeprefix("#!").split()
    if not words:
        return None
    if os.path.basename(words[0]) != "env":
        return words[0]
    names = [word for word in words[1:] if not word.startswith("-")]
    if not names:
        return None
    import shutil

    return shutil.which(names[0], path=search_path)


def main(arguments: list[str]) -> int:
    """Confine this process and become the program; return only after a failure.

    The arguments are `-r PATH`, `-w PATH`, `-c PORT-PORT`, `--`, then the program and
    its arguments. `-n ""` says that there is a rule about ports, which may allow none.
    """
    rules = arguments[: arguments.index("--")]
    argv = arguments[len(rules) + 1 :]
    read: list[str] = []
    write: list[str] = []
    ports: list[range] = []
    has_port_rule = False
    for flag, value in zip(rules[::2], rules[1::2], strict=True):
        if flag == "-r":
            read.append(value)
        elif flag == "-w":
            write.append(value)
        elif flag == "-c":
            low, high = value.split("-")
            ports.append(range(int(low), int(high) + 1))
        elif flag == "-n" and not value:
            has_port_rule = True
    try:
        confine(read, write, ports if has_port_rule else None)
    except OSError as error:
        sys.stderr.write(
            f"bridgehead: {argv[0]} was not started, because it could not be "
            f"confined: {error}\n"
        )
        return NOT_CONFINED
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        sys.stderr.write(
            f"bridgehead: {argv[0]} could not be started: {error.strerror}\n"
        )
        return 127


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
