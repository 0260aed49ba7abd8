/* SPDX-License-Identifier: Apache-2.0 */
/* See agree.h. The common case, in which no PE failed, moves four bytes per PE. */
#include "boot/agree.h"

#include "base/status.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

enum { SENTENCE_BYTES = 768 };

struct failure_record {
    char sentence[SENTENCE_BYTES];
};

/* A sentence may already begin with "PE 1 on b: ", from an agreement inside the step. Then *pe
 * becomes that PE and the prefix is dropped. */
static const char *strip_pe_prefix(const char *sentence, int npes, int *pe)
{
    int number = -1, behind = 0;
    if (sscanf(sentence, "PE %d: %n", &number, &behind) < 1 || !behind)
        sscanf(sentence, "PE %d on %*[^ :]: %n", &number, &behind);
    if (!behind || number < 0 || number >= npes)
        return sentence;
    *pe = number;
    return sentence + behind;
}

static weft_status gather_sentences(struct boot *boot, int failed, weft_status outcome)
{
    struct failure_record mine, *all = calloc((size_t)boot->npes, sizeof *all);
    base_shorten(mine.sentence, sizeof mine.sentence, base_last_error());
    if (!all)
        return base_fail(WEFT_ERR_NO_MEMORY,
                         "PE %d failed, and there is no memory for its error message", failed);
    weft_status status = boot->ops->allgather(boot, &mine, all, sizeof mine);
    if (!status) {
        all[failed].sentence[SENTENCE_BYTES - 1] = '\0';
        const char *sentence = strip_pe_prefix(all[failed].sentence, boot->npes, &failed);
        status = failed == boot->pe ? base_fail(outcome, "%s", sentence)
                                    : base_fail(outcome, "PE %d%s: %s", failed,
                                                boot_where(boot, failed).text, sentence);
    }
    free(all);
    return status;
}

#undef boot_agree
weft_status boot_agree(struct boot *boot, weft_status status)
{
    if (boot->npes == 1)
        return status;
    int32_t mine = (int32_t)status;
    int32_t *all = calloc((size_t)boot->npes, sizeof *all);
    if (!all)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the status of %d PEs",
                         boot->npes);
    weft_status gathered = boot->ops->allgather(boot, &mine, all, sizeof mine);
    int failed = -1;
    for (int pe = boot->npes - 1; !gathered && pe >= 0; pe--)
        if (all[pe])
            failed = pe;
    weft_status outcome = failed >= 0 ? (weft_status)all[failed] : WEFT_OK;
    free(all);
    if (gathered || failed < 0)
        return gathered;
    return gather_sentences(boot, failed, outcome);
}
