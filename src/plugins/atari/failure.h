// SPDX-License-Identifier: MIT
// What the plug-in throws when it refuses something.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace gpur_atari
{

enum { MAX_MESSAGE = 1024 };

// A sentence that says what went wrong, with the value given and the value wanted.
class Failure : public std::runtime_error
{
  public:
    __attribute__((format(printf, 2, 3))) explicit Failure(const char *format, ...) : std::runtime_error("")
    {
        va_list values;
        va_start(values, format);
        std::vsnprintf(words_, sizeof words_, format, values);
        va_end(values);
    }
    const char *what() const noexcept override
    {
        return words_;
    }

  private:
    char words_[MAX_MESSAGE];
};

} // namespace gpur_atari
