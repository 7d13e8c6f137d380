/* SPDX-License-Identifier: MIT */
/* Headers of safetensors files: valid ones are read, and invalid ones are refused with a message that states what is
 * wrong. */
#include "support/file_utils.h"
#include "test.h"

/* Calls gpur_checkpoint_get_info for a file with this header, this length field and `data` bytes of data. */
static gpur_status ask(const char *header, uint64_t length, int64_t data, gpur_checkpoint_info *info)
{
    static unsigned char file[4096];
    const char *const path = test_file_path("made");
    const size_t bytes = strlen(header);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)(length >> 8 * i);
    memcpy(file + 8, header, bytes);
    memset(file + 8 + bytes, 0, (size_t)data);
    info->size = sizeof *info;
    return write_file(path, file, 8 + (int64_t)bytes + data) == 0 ? gpur_checkpoint_get_info(path, info) : -100;
}

#define T(name, type, shape, begin, end)                                                                               \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

TEST(good_headers_are_read)
{
    static const struct {
        const char *header;
        int64_t data, tensors;
    } good[] = {
        {"{}", 0, 0},
        {"{}      ", 0, 0},
        {"{\r\n\t" T("a\\\"\\\\", "U8", "[1]", 0, 1) "\n}\n", 1, 1},
        {"{" T("a", "F32", "[2,3]", 0, 24) "}", 24, 1},
        {"{" T("b", "U8", "[5]", 24, 29) "," T("a", "F32", "[2,3]", 0, 24) "}", 29, 2},
        {"{\"__metadata__\":{\"format\":\"pt\"}," T("a", "BF16", "[]", 0, 2) "}", 2, 1},
        {"{" T("none", "F64", "[0,7]", 0, 0) "," T("a", "I64", "[1]", 0, 8) "}", 8, 2},
        {"{" T("\\u00e9\xc3\xa9", "U8", "[1]", 0, 1) "}", 1, 1},
    };
    gpur_checkpoint_info info;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK_OK(ask(good[i].header, strlen(good[i].header), good[i].data, &info));
        CHECK_EQUAL(info.tensors, good[i].tensors);
        CHECK(strcmp(info.kind, "safetensors") == 0 && info.version[0] == 0);
    }
}

static const struct {
    const char *header;
    int64_t data;
    const char *message;
} bad[] = {
    {"[]", 0, "not JSON"},
    {" {}", 0, "not JSON"},
    {"{}x", 0, "something follows"},
    {"{\"a\":1}", 0, "is no object"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4, "is no object"},
    {"{" T("a", "F33", "[1]", 0, 4) "}", 4, "no dtype that is known"},
    {"{" T("a", "F32", "1", 0, 4) "}", 4, "has no shape"},
    {"{" T("a", "F32", "[-1]", 0, 4) "}", 4, "whole numbers"},
    {"{" T("a", "F32", "[1.5]", 0, 6) "}", 6, "whole numbers"},
    {"{" T("a", "F32", "[1e300]", 0, 4) "}", 4, "whole numbers"},
    {"{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, "more than 8 axes"},
    {"{" T("a", "F32", "[4294967296,4294967296]", 0, 0) "}", 0, "too many"},
    {"{" T("a", "F32", "[2]", 0, 4) "}", 4, "by its type and shape it has 8"},
    {"{" T("a", "F32", "[1]", 4, 0) "}", 4, "two rising whole numbers"},
    {"{" T("a", "F32", "[1]", 4, 8) "}", 8, "begins at byte 4"},
    {"{" T("a", "F32", "[1]", 0, 4) "," T("b", "F32", "[1]", 8, 12) "}", 12, "the one before it ends at 4"},
    {"{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[1]", 4, 8) "}", 8, "the one before it ends at 8"},
    {"{" T("a", "F32", "[1]", 0, 4) "," T("a", "F32", "[1]", 4, 8) "}", 8, "is there twice"},
    {"{" T("a", "F32", "[1]", 0, 4) "}", 5, "5 bytes of data; the header speaks of 4"},
    {"{" T("a", "F32", "[1]", 0, 4) "}", 3, "3 bytes of data"},
    {"{\"__metadata__\":1}", 0, "is no object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "no string"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "a key twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "is there twice"},
    {"{\"\xff\":1}", 0, "UTF-8"},
    {"{\"\xc0\x80\":1}", 0, "UTF-8"},
    {"{\"\x01\":1}", 0, "UTF-8"},
    {"{\"\\\"\n\":1}", 0, "UTF-8"},
    {"{\"\\\\\":1}\n\v", 0, "UTF-8"},
    {"{\"\xed\xa0\x80\":1}", 0, "UTF-8"},
};

TEST(bad_headers_are_refused)
{
    gpur_checkpoint_info info;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const gpur_status status = ask(bad[i].header, strlen(bad[i].header), bad[i].data, &info);
        TEST_REQUIRE(status == GPUR_FILE_ERROR && strstr(gpur_last_error(), bad[i].message), "%s: %s: %s",
                     bad[i].header, gpur_status_name(status), gpur_last_error());
        CHECK_MESSAGE("made: ");
    }
}

TEST(lengths_that_cannot_be_and_deep_json_are_refused)
{
    static char header[3000] = "{\"a\":";
    gpur_checkpoint_info info;
    const uint64_t lengths[] = {0, 1, 3, 4096, UINT32_MAX, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        CHECK_FAILS(ask("{}", lengths[i], 0, &info), GPUR_FILE_ERROR, "it must be 2 to 2");
    }
    memset(header + 5, '[', 2000);
    CHECK_STATUS(ask(header, strlen(header), 0, &info), GPUR_FILE_ERROR);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(good_headers_are_read);
    RUN(bad_headers_are_refused);
    RUN(lengths_that_cannot_be_and_deep_json_are_refused);
    test_remove_folder();
    return test_main_end();
}
