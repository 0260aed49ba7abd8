# SPDX-License-Identifier: Apache-2.0
# Leaves out of LLVM's text what keeps its functions from being inlined into those of another compiler,
# or the module from being linked: flags and attributes of this compilation.
/^@llvm\.compiler\.used = /d
/^!llvm\.module\.flags = /d
/^attributes #/{
s/ "frame-pointer"="[a-z]*"//
s/ "no-builtins"//
s/ "stack-protector-buffer-size"="[0-9]*"//
s/ "target-cpu"="[a-z0-9_]*"//
s/ "target-features"="[^"]*"//
}
