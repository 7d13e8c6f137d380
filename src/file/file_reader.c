/* SPDX-License-Identifier: MIT */
#include "file/file_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK: opening a pipe that has no writer would block. It has no effect on ordinary files. */
static gpur_status open_it(gpur_file_reader *file)
{
    struct stat there;
    file->descriptor = open(file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file->descriptor < 0 && errno == ELOOP)
        return gpur_fail(GPUR_FILE_ERROR, "%s is a symbolic link; name the file that it points to", file->path);
    if (file->descriptor < 0 || fstat(file->descriptor, &there) != 0)
        return gpur_fail(GPUR_FILE_ERROR, "%s: cannot be opened: %s", file->path, strerror(errno));
    if (!S_ISREG(there.st_mode))
        return gpur_fail(GPUR_FILE_ERROR, "%s is %s; it must be a file", file->path,
                         S_ISDIR(there.st_mode) ? "a folder" : "no ordinary file");
    file->bytes = (int64_t)there.st_size;
    return GPUR_OK;
}

gpur_status gpur_file_reader_open(gpur_file_reader *file, const char *path)
{
    *file = (gpur_file_reader){.path = path, .descriptor = -1};
    const gpur_status status = open_it(file);
    if (status != GPUR_OK)
        gpur_file_reader_close(file);
    return status;
}

gpur_status gpur_file_reader_read(const gpur_file_reader *file, void *data, int64_t bytes, int64_t offset)
{
    unsigned char *to = data;
    while (bytes > 0) {
        const ssize_t got = pread(file->descriptor, to, (size_t)bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return gpur_fail(GPUR_FILE_ERROR, "it cannot be read: %s", strerror(errno));
        if (got == 0)
            return gpur_fail(GPUR_FILE_ERROR, "it ends at byte %" PRId64 "; %" PRId64 " more are wanted", offset,
                             bytes);
        to += got, offset += got, bytes -= got;
    }
    return GPUR_OK;
}

void gpur_file_reader_close(gpur_file_reader *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
    file->descriptor = -1;
}
