/* SPDX-License-Identifier: Apache-2.0 */
/* Whether fault k is switched on by the environment variable MUTANT. Stands in front of every file
 * with a fault, so it brings no header along, in front of which a file may want to define
 * things. */
#ifndef WEFT_MUTANT_H
#define WEFT_MUTANT_H

#ifdef __cplusplus
extern "C" char **environ;
#else
extern char **environ;
#endif

__attribute__((unused)) static int weft_mutant_number(const char *text)
{
    int number = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        number = 10 * number + *text - '0';
    return number;
}

/* The environment is read once, if possible before main(): a program may change it as it likes. */
__attribute__((unused)) static int weft_mutant(int k)
{
    static int chosen = -1;
    int found = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (found < 0) {
        static const char name[] = "MUTANT=";
        char **entry;
        found = 0;
        for (entry = environ; entry && *entry; entry++) {
            int i = 0;
            while (name[i] && (*entry)[i] == name[i])
                i++;
            if (!name[i])
                found = weft_mutant_number(*entry + i);
        }
        __atomic_store_n(&chosen, found, __ATOMIC_RELAXED);
    }
    return found == k;
}

__attribute__((constructor, unused)) static void weft_mutant_begin(void)
{
    weft_mutant(0);
}

#endif
