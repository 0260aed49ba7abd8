# SPDX-License-Identifier: Apache-2.0
# Kernels that Python compiles: PEs send to the next one by put_signal, and check what came.
#   weft run -n 2 python3 rtc.py [cupy | cuda-core | triton | numba ...]
# Not a test of the build: it needs a GPU, and these packages (triton with torch). Without arguments
# it runs those that are here. Every PE on one GPU works too.
import ctypes, importlib, os, shutil, subprocess, sys

WEFT_GPU, WEFT_ALLOC_ZERO, WEFT_SIGNAL_SET, WEFT_GE = 1, 1, 0, 5
WORDS = 1000
WEFT = shutil.which(os.environ.get("WEFT", "weft"))
os.environ.setdefault("WEFT_TARGET", "cuda")
os.environ.setdefault("WEFT_WAIT_LIMIT", "60s")


def ask_weft(*words):
    return subprocess.check_output([WEFT, *words], text=True).strip()


def state_version():
    with open(ask_weft("include") + "/weft_device_all.h", encoding="utf-8") as header:
        return int(header.read().split("WEFT_DEV_VERSION = ")[1].split()[0])


class Job:
    """libweft by ctypes: what these kernels need of it."""

    def __init__(self):
        near = os.path.join(os.path.dirname(os.path.realpath(WEFT)), "..", "lib", "libweft.so.0")
        name = os.environ.get("WEFT_LIBRARY", near if os.path.exists(near) else "libweft.so.0")
        self.weft = ctypes.CDLL(name)
        self.weft.weft_last_error.restype = ctypes.c_char_p
        self.weft.weft_team_world.restype = ctypes.c_void_p
        self.weft.weft_team_world.argtypes = [ctypes.c_void_p]
        self.job = ctypes.c_void_p()
        self.call("weft_init", ctypes.byref(self.job), None)
        self.call("weft_device_start", self.job)
        self.me = self.weft.weft_my_pe(self.job)
        self.n = self.weft.weft_n_pes(self.job)
        self.to, self.source = self.alloc(8 * WORDS), self.alloc(8 * WORDS)
        self.flag, self.status = self.alloc(8), self.alloc(8)

    def call(self, function, *arguments):
        if getattr(self.weft, function)(*arguments):
            raise RuntimeError(self.weft.weft_last_error().decode())

    def alloc(self, size):
        address = ctypes.c_void_p()
        self.call(
            "weft_alloc", self.job, WEFT_GPU, ctypes.c_size_t(size), ctypes.c_size_t(0),
            WEFT_ALLOC_ZERO, ctypes.byref(address),
        )
        return address.value

    def state(self):
        address = ctypes.c_void_p()
        self.call("weft_device_state", self.job, state_version(), ctypes.byref(address))
        return address.value

    def barrier(self):
        self.call("weft_barrier", ctypes.c_void_p(self.weft.weft_team_world(self.job)))

    def copy(self, function, host, address, size):
        context = self.weft.weft_default_ctx
        context.restype, context.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        address, size = ctypes.c_void_p(address), ctypes.c_size_t(size)
        order = (address, host) if function == "weft_put" else (host, address)
        self.call(function, ctypes.c_void_p(context(self.job)), *order, size, self.me)
        self.call("weft_quiet", ctypes.c_void_p(context(self.job)))

    def word(self, pe, i, turn):
        return (pe + 1) * 1000003 + 7 * i + turn * 1000000007

    def before(self, turn):
        words = (ctypes.c_uint64 * WORDS)(*[self.word(self.me, i, turn) for i in range(WORDS)])
        self.copy("weft_put", words, self.source, 8 * WORDS)
        self.copy("weft_put", (ctypes.c_uint64 * WORDS)(), self.to, 8 * WORDS)
        self.copy("weft_put", (ctypes.c_uint64 * 1)(0), self.flag, 8)
        self.copy("weft_put", (ctypes.c_uint64 * 1)(99), self.status, 8)
        self.barrier()

    def after(self, turn, what):
        words, status = (ctypes.c_uint64 * WORDS)(), ctypes.c_uint64()
        self.copy("weft_get", words, self.to, 8 * WORDS)
        self.copy("weft_get", ctypes.byref(status), self.status, 8)
        self.call("weft_device_check", self.job)
        previous = (self.me + self.n - 1) % self.n
        wrong = [i for i in range(WORDS) if words[i] != self.word(previous, i, turn)]
        if wrong or status.value & 0xFFFFFFFF:
            raise RuntimeError(f"PE {self.me}: {what}: status {status.value}, wrong words: {wrong[:5]}")
        self.barrier()
        if self.me == 0:
            print(f"{what}: {self.n} PEs, all words right", flush=True)


BODY = """
{
    int next = (WEFT_OF weft_dev_my_pe() + 1) % WEFT_OF weft_dev_n_pes();
    WEFT_OF weft_block_put_signal(to, source, bytes, flag, 1, WEFT_SIGNAL_SET, next);
    int failed = WEFT_OF weft_block_signal_wait(flag, WEFT_GE, 1);
    if (weft_dev_thread_rank() == 0)
        *status = failed;
}
"""
SYMBOL = """
#include <weft_device.h>
#define WEFT_OF
WEFT_KERNEL(exchange, (uint64_t *, to), (const uint64_t *, source), (uint64_t *, flag),
            (int *, status), (size_t, bytes))
""" + BODY
POINTER = """
#define WEFT_STATE_BY_POINTER
#include <weft_device.h>
#define WEFT_OF weft.
extern "C" __global__ void exchange(const struct weft_dev *state, uint64_t *to,
                                    const uint64_t *source, uint64_t *flag, int *status, size_t bytes)
""" + BODY.replace("{", "{\n    struct weft_device weft = {*state};", 1)


def run_cupy(job, turn):
    import cupy, numpy

    cupy.cuda.Device(cupy.cuda.runtime.pointerGetAttributes(job.to).device).use()
    options = ("-std=c++17", "-I" + ask_weft("include"))
    pointers = [numpy.uint64(address) for address in (job.to, job.source, job.flag, job.status)]
    size = numpy.uint64(8 * WORDS)
    module = cupy.RawModule(code=SYMBOL, options=options)
    job.call("weft_module_init", job.job, ctypes.c_void_p(module.module.ptr))
    job.before(turn)
    module.get_function("weft_cuda_kernel_exchange")((1,), (128,), (*pointers, size))
    cupy.cuda.Device().synchronize()
    job.after(turn, "CuPy RawModule, state in the module")
    module = cupy.RawModule(code=POINTER, options=options)
    job.before(turn + 1)
    state = numpy.uint64(job.state())
    module.get_function("exchange")((1,), (128,), (state, *pointers, size))
    cupy.cuda.Device().synchronize()
    job.after(turn + 1, "CuPy RawModule, address of the state")


def run_cuda_core(job, turn):
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device(gpu_of(job))
    device.set_current()
    stream = device.create_stream()
    options = ProgramOptions(
        std="c++17", arch="sm_" + device.arch, include_path=ask_weft("include")
    )
    kernel = Program(POINTER, code_type="c++", options=options).compile("cubin").get_kernel("exchange")
    job.before(turn)
    launch(
        stream, LaunchConfig(grid=1, block=128), kernel,
        job.state(), job.to, job.source, job.flag, job.status, 8 * WORDS,
    )
    stream.sync()
    job.after(turn, "cuda.core Program, address of the state")


def gpu_of(job):
    """The GPU on which the heap of this PE lies."""
    driver, ordinal = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9
    if driver.cuPointerGetAttribute(
        ctypes.byref(ordinal), CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ctypes.c_uint64(job.to)
    ):
        raise RuntimeError("cuPointerGetAttribute fails")
    return ordinal.value


def run_triton(job, turn):
    import torch, triton_kernel

    torch.cuda.set_device(gpu_of(job))
    job.before(turn)
    triton_kernel.exchange[(1,)](
        job.state(), job.to, job.source, job.flag, job.status, 8 * WORDS, (job.me + 1) % job.n,
        num_warps=4, extern_libs={"weft": ask_weft("include", "--bitcode")},
    )
    torch.cuda.synchronize()
    job.after(turn, "Triton, weft_device.bc")


def run_numba(job, turn):
    from numba import cuda

    ptx = ask_weft("include", "--bitcode")[: -len("bc")] + "ptx"
    put_signal = cuda.declare_device(
        "weft_state_block_put_signal",
        "int32(uint64, uint64, uint64, uint64, uint64, uint64, int32, int32)", link=ptx, abi="c",
    )
    signal_wait = cuda.declare_device(
        "weft_state_block_signal_wait", "int32(uint64, uint64, int32, uint64)", link=ptx, abi="c"
    )

    @cuda.jit
    def exchange(state, to, source, flag, status, size, next_pe):
        put_signal(state, to, source, size, flag, 1, WEFT_SIGNAL_SET, next_pe)
        failed = signal_wait(state, flag, WEFT_GE, 1)
        if cuda.threadIdx.x == 0:
            status[0] = failed

    cuda.select_device(gpu_of(job))
    status = cuda.to_device([99])
    job.before(turn)
    exchange[1, 128](
        job.state(), job.to, job.source, job.flag, status, 8 * WORDS, (job.me + 1) % job.n
    )
    cuda.synchronize()
    job.copy("weft_put", (ctypes.c_uint64 * 1)(int(status.copy_to_host()[0])), job.status, 8)
    job.after(turn, "Numba, weft_device.ptx")


WAYS = {
    "cupy": (run_cupy, ("cupy",)),
    "cuda-core": (run_cuda_core, ("cuda.core",)),
    "triton": (run_triton, ("triton", "torch")),
    "numba": (run_numba, ("numba_cuda",)),
}


def is_here(module):
    try:
        importlib.import_module(module)
        return True
    except ImportError:
        return False


def main():
    asked = sys.argv[1:] or [way for way, (_, needs) in WAYS.items() if all(map(is_here, needs))]
    unknown = [way for way in asked if way not in WAYS]
    if unknown or not WEFT:
        sys.exit(f"unknown: {', '.join(unknown)}" if unknown else "there is no weft in PATH")
    job = Job()
    for turn, way in enumerate(asked):
        WAYS[way][0](job, 2 * turn)
    if job.me == 0 and len(asked) < len(WAYS):
        print("not run: " + ", ".join(sorted(set(WAYS) - set(asked))))
    job.call("weft_finalize", job.job)


if __name__ == "__main__":
    main()
