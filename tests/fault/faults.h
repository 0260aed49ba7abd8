/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command, keeps its output, and checks what it left behind. */
#ifndef WEFT_TESTS_FAULTS_H
#define WEFT_TESTS_FAULTS_H

#include <stdbool.h>
#include <sys/types.h>

struct outcome {
    int status; /* exit status, 128 + signal */
    char output[65536];
};

/* Starts argv[0]; its standard output and error go to one memory file. An entry in its environment
 * identifies the process and all its descendants. */
pid_t faults_start(char *const argv[]);

/* Waits for it (for at most 60 s) and reads its output. */
void faults_wait(pid_t pid, struct outcome *outcome);

void faults_run(char *const argv[], struct outcome *outcome);

/* Reads the output so far. */
void faults_peek(pid_t pid, struct outcome *outcome);

/* Waits until it has printed `text`. */
void faults_await(pid_t pid, const char *text);

/* Fails the test when, after 2 s, processes with the environment entry still run, or new files of
 * this user in /dev/shm or /tmp or abstract sockets "@weft/" still exist. */
void faults_expect_nothing_left(void);
void faults_remember(void); /* Records the files that exist before the test. */

bool faults_contain(const struct outcome *outcome, const char *text);
void faults_expect(const struct outcome *outcome, int status, const char *text);

/* A port number that other runs of this test do not use. */
int faults_port(void);

#endif
