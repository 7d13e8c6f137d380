/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: arbitrary bytes as a block. The first byte of an input selects the replay that gets the rest, and
 * whether the checksum is corrected first, so that the code behind its check is reached. A refused block changes
 * nothing, and every replay stays usable. Writes the initial inputs into the folder named last on the command line.
 */
#include "support/block_damage.h"
#include "support/file_utils.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPAIR = 64 };

static block_kind kinds[BLOCK_KINDS];

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_block: %s: %s\n", what, gpur_last_error());
    abort();
}

static void add_seed(const char *folder, int32_t kind)
{
    char path[512];
    unsigned char input[1 + BLOCK_ROOM];
    input[0] = (unsigned char)(kind | REPAIR);
    memcpy(input + 1, kinds[kind].block, (size_t)kinds[kind].bytes);
    snprintf(path, sizeof path, "%s/block%d", folder, (int)kind);
    must(write_file(path, input, kinds[kind].bytes + 1) == 0, "a seed cannot be written");
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    gpur_device *device = NULL;
    const char *const last = (*argv)[*argc - 1];
    must(gpur_device_open("cpu", NULL, &device) == GPUR_OK, "device");
    for (int32_t i = 0; i < BLOCK_KINDS; i++) {
        must(block_kind_open(&kinds[i], device, i), "a replay and a block");
        if (*argc > 1 && last[0] != '-')
            add_seed(last, i);
    }
    return 0;
}

static void sample(gpur_replay *replay)
{
    gpur_batch *batch = NULL;
    must(gpur_replay_sample(replay, 8, NULL, &batch) == GPUR_OK, "sample");
    gpur_batch_release(batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    block_kind *const k = &kinds[data[0] % BLOCK_KINDS];
    const int64_t bytes = (int64_t)size - 1;
    unsigned char *const block = malloc(size);
    must(block != NULL, "no memory for an input");
    memcpy(block, data + 1, size - 1);
    if (data[0] & REPAIR)
        block_repair(block, bytes);
    const block_state before = block_state_of(k->replay);
    const gpur_status checked = gpur_block_check(k->format, block, bytes, NULL);
    const gpur_status status = gpur_writer_append_block(k->writer, block, bytes, NULL);
    const block_state after = block_state_of(k->replay);
    free(block);
    must(status >= 0, "the device failed");
    must(checked == GPUR_OK || status != GPUR_OK, "a bad block was appended");
    must(status == GPUR_OK || gpur_last_error()[0], "a refusal without a message");
    must(status == GPUR_OK || memcmp(&before, &after, sizeof before) == 0, "a refusal changed something");
    sample(k->replay);
    return 0;
}
