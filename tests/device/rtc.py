# SPDX-License-Identifier: Apache-2.0
# Usage: rtc.py WEFT
# NVRTC compiles kernels with <weft_device.h>, with no include path but the folder that `weft include`
# prints, and with weft_device_all.h from memory: with the state as a symbol and by its address.
# Exit status 77: there is no libnvrtc (pip package nvidia-cuda-nvrtc, or a CUDA toolkit).
import ctypes, ctypes.util, glob, os, re, shutil, subprocess, sys

BODY = r"""
{
    int next = (%(w)sweft_dev_my_pe() + 1) %% %(w)sweft_dev_n_pes();
    %(w)sweft_block_put_signal(slot, slot + 64, 512, flag, 1, WEFT_SIGNAL_SET, next);
    %(w)sweft_thread_atomic_add32(slot + 1, 5, next);
    %(w)sweft_block_signal_wait(flag, WEFT_GE, 1);
    %(w)sweft_block_barrier(0);
    %(more)s
}
"""
SYMBOL = "#include <weft_device.h>\nWEFT_KERNEL(shift, (uint64_t *, slot), (uint64_t *, flag))\n" + BODY
POINTER = (
    "#define WEFT_STATE_BY_POINTER\n#include <weft_device.h>\n"
    'extern "C" __global__ void shift(const struct weft_dev *state, uint64_t *slot, uint64_t *flag)\n'
    + BODY.replace("{", "{\n    struct weft_device weft = {*state};", 1)
)
# Types of C that libcu++ defines too, before or after: the same ones.
TYPES = "typedef signed long long int64_t;\ntypedef unsigned long long uint64_t;\n"
REDUCE = "%(w)sweft_block_allreduce(0, slot, slot + 8, 8, WEFT_FLOAT, WEFT_SUM);"


def find_nvrtc():
    places = [os.path.join(path, "nvidia", "*", "lib") for path in sys.path]
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    places.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "lib64"))
    for place in places:
        for name in sorted(glob.glob(os.path.join(place, "libnvrtc.so.*"))):
            return name
    return ctypes.util.find_library("nvrtc")


class Failure(Exception):
    pass


def compile_source(nvrtc, source, options, headers):
    """PTX or, for sm_NN, a cubin too. Fails also where NVRTC warns."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    names = (ctypes.c_char_p * len(headers))(*[name.encode() for name in headers])
    texts = (ctypes.c_char_p * len(headers))(*[text.encode() for text in headers.values()])
    given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    if nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"shift.cu", len(headers), texts, names
    ):
        raise Failure("nvrtcCreateProgram fails")
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)

    def text_of(what):
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, text)
        return text.raw

    log = text_of("ProgramLog").rstrip(b"\0").decode().strip()
    if failed or log:
        raise Failure(f"status {failed}: {log}")
    result = text_of("PTX").decode(), text_of("CUBIN") if "-arch=sm" in options[0] else b"none"
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return result


def check(nvrtc, arch, source, options, headers, by_pointer, more):
    member = "weft." if by_pointer else ""
    source %= {"w": member, "more": more % {"w": member}}
    ptx, cubin = compile_source(nvrtc, source, ["-arch=" + arch] + options, headers)
    kernel = "shift" if by_pointer else "weft_cuda_kernel_shift"
    if not re.search(r"\.entry " + kernel + r"\(", ptx):
        raise Failure(f"no kernel {kernel}")
    if bool(re.search(r"\.const .*\bweft_dev_state\[\d+\]", ptx)) == by_pointer:
        raise Failure("weft_dev_state is " + ("there" if by_pointer else "not there"))
    if not cubin:
        raise Failure("no cubin")


def main():
    name = find_nvrtc()
    if not name:
        print("skipped: no libnvrtc (pip package nvidia-cuda-nvrtc, or a CUDA toolkit)")
        return 77
    nvrtc = ctypes.CDLL(name)
    folder = subprocess.run(
        [sys.argv[1], "include"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    with open(os.path.join(folder, "weft_device_all.h"), encoding="utf-8") as file:
        whole = {"weft_device.h": file.read()}
    include = ["-I" + folder]
    cases = [
        ("folder, symbol", "compute_75", TYPES + SYMBOL, include, {}, False, REDUCE),
        ("folder, pointer", "sm_90", POINTER + TYPES, include, {}, True, ""),
        ("one header, symbol", "sm_90", SYMBOL, [], whole, False, ""),
        ("one header, pointer", "compute_75", POINTER, [], whole, True, REDUCE),
    ]
    failed = 0
    for case, *arguments in cases:
        try:
            check(nvrtc, *arguments)
        except Failure as failure:
            print(f"{case}, {arguments[0]}: {failure}")
            failed = 1
    return failed


sys.exit(main())
