/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a foreign library from reading /proc/kallsyms: the kernel makes its 5 MB anew for each
 * reader, which takes longer than all else that libfabric does when it starts. */
#ifndef WEFT_DRIVER_KALLSYMS_H
#define WEFT_DRIVER_KALLSYMS_H

/* Runs `run(argument)` in a thread that cannot read /proc/kallsyms: open() returns EACCES there.
 * The caller waits, and keeps its own rights. Threads that `run` creates cannot read it either, nor
 * files of other processes in /proc. Where the kernel has no Landlock (Linux 5.13), or no thread
 * can be created, `run` can read the file. */
void driver_run_without_kallsyms(void (*run)(void *argument), void *argument);

#endif
