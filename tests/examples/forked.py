# SPDX-License-Identifier: MIT
"""Runs a module of Python many times, as `python -m MODULE` does, in forks of one process that has imported NumPy,
Gymnasium and gpureplay: a run does not import them again. Each fork has its own words, current folder and output; no
device is open when it begins. As a program, this is that process; `Forks` is the other side of its socket.

usage: forked.py module socket
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile

IMPORTED = ("numpy", "gymnasium", "gpureplay", "gpureplay._door", "gpureplay._envs", "gpureplay._python_envs")


class Forks:
    """A process of `python` from which runs of `module` are forked. It ends when this one does."""

    def __init__(self, python, module):
        self.command, self.module = [python, "-m", module], module
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen([python, __file__, module, str(theirs.fileno())],
                                            pass_fds=[theirs.fileno()])
        atexit.register(self.close)

    def close(self):
        self.requests.close()
        self.process.wait()

    def run(self, words, timeout, cwd=None):
        """What subprocess.run returns with the output of the run."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            request = json.dumps({"words": words, "cwd": str(cwd or os.getcwd())}).encode()
            socket.send_fds(self.requests, [request], [out.fileno(), err.fileno()])
            self.requests.settimeout(timeout)
            child = int(self.requests.recv(100))
            try:
                status = int(self.requests.recv(100))
            except socket.timeout:
                os.kill(child, signal.SIGKILL)
                raise
            shown = []
            for file in (out, err):
                file.seek(0)
                shown.append(file.read())
        return subprocess.CompletedProcess([*self.command, *words], status, *shown)


def fork_each(requests):
    """Returns in the child the request that it has to run; None in this process, when there are no more."""
    while True:
        request, files, _, _ = socket.recv_fds(requests, 1 << 16, 2)
        if not request:
            return None
        child = os.fork()
        if child == 0:
            for stream, file in enumerate(files, start=1):
                os.dup2(file, stream)
                os.close(file)
            return json.loads(request)
        for file in files:
            os.close(file)
        requests.send(str(child).encode())
        requests.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def main():
    module = sys.argv[1]
    for name in IMPORTED:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:  # the run says so
            pass
    gc.freeze()  # an object that no fork looks at is not copied
    with socket.socket(fileno=int(sys.argv[2])) as requests:
        request = fork_each(requests)
    if request is not None:
        os.chdir(request["cwd"])
        sys.argv[1:], sys.path[0] = request["words"], request["cwd"]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
