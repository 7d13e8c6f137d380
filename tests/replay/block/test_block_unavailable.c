/* SPDX-License-Identifier: MIT */
/* Builds without xxHash or Zstandard say which package they lack; others make blocks. */
#include "support/actor_fixture.h"
#include "test.h"

static const actors_setting setting = {.layout = GPUR_LAYOUT_ROWS, .stack = 1, .n_step = 1};

TEST(a_build_without_xxhash_names_its_package)
{
    gpur_field fields[ACTOR_FIELDS];
    const gpur_replay_config config = actors_config(&setting, fields);
    gpur_block_format *format = NULL;
    const gpur_status status = gpur_block_format_create(&config, &format);
#ifdef GPUR_HAS_FILES
    CHECK_OK(status);
    CHECK(gpur_block_format_hash(format) != 0);
#else
    CHECK_FAILS(status, GPUR_UNAVAILABLE, "apt install libcjson-dev libxxhash-dev");
#endif
    gpur_block_format_destroy(format);
}

#ifdef GPUR_HAS_FILES
TEST(a_build_without_zstandard_names_its_package)
{
    gpur_field fields[ACTOR_FIELDS];
    const gpur_replay_config config = actors_config(&setting, fields);
    gpur_block_format *format = NULL;
    gpur_packer_config packed;
    gpur_packer *packer = NULL;
    CHECK_OK(gpur_block_format_create(&config, &format));
    CHECK_OK(gpur_packer_config_init(&packed, sizeof packed));
    packed.compression = 1;
    const gpur_status status = gpur_packer_create(format, &packed, &packer);
#ifdef GPUR_HAS_ZSTD
    CHECK_OK(status);
#else
    CHECK_FAILS(status, GPUR_UNAVAILABLE, "apt install libzstd-dev");
#endif
    gpur_packer_destroy(packer);
    gpur_block_format_destroy(format);
}
#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_build_without_xxhash_names_its_package);
#ifdef GPUR_HAS_FILES
    RUN(a_build_without_zstandard_names_its_package);
#endif
    return test_main_end();
}
