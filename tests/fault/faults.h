/* SPDX-License-Identifier: Apache-2.0 */
/* Running a command, keeping what it prints, and looking for what it left behind. */
#ifndef WEFT_TESTS_FAULTS_H
#define WEFT_TESTS_FAULTS_H

#include <stdbool.h>
#include <sys/types.h>

struct outcome {
    int status; /* exit status, 128 + signal */
    char output[65536];
};

/* Starts argv[0]; its standard output and error go to one memory file. Its environment holds a mark
 * by which everything that descends from it can be found. */
pid_t faults_start(char *const argv[]);

/* Waits for it (for at most a minute) and reads what was printed. */
void faults_wait(pid_t pid, struct outcome *outcome);

void faults_run(char *const argv[], struct outcome *outcome);

/* What the command has printed so far. */
void faults_peek(pid_t pid, struct outcome *outcome);

/* Waits until it has printed `text`. */
void faults_await(pid_t pid, const char *text);

/* Fails the test when, within two seconds, there are still processes with the mark, new files of
 * ours in /dev/shm or /tmp, or abstract sockets "@weft/". */
void faults_expect_nothing_left(void);
void faults_remember(void); /* what was there before */

bool faults_contain(const struct outcome *outcome, const char *text);
void faults_expect(const struct outcome *outcome, int status, const char *text);

/* A port number that other runs of this test do not use. */
int faults_port(void);

#endif
