// SPDX-License-Identifier: MIT
// Compiled without contraction to fused multiply-adds, which would round otherwise: see CMakeLists.txt.
#include "area.h"

#include <algorithm>
#include <cstring>

namespace gpur_atari
{

// In units of 1/size of a pixel, the result i covers [i * length, (i + 1) * length), and pixel j [j * size, (j + 1) *
// size).
std::vector<AreaShrink::Cover> AreaShrink::covers(int length, int size)
{
    std::vector<Cover> all;
    for (int i = 0; i < size; i++) {
        const int begin = i * length, end = begin + length;
        Cover cover = {begin / size, {}};
        for (int j = cover.first; j * size < end; j++) {
            const int common = std::min(end, (j + 1) * size) - std::max(begin, j * size);
            cover.shares.push_back(static_cast<float>(static_cast<double>(common) / length));
        }
        all.push_back(cover);
    }
    return all;
}

AreaShrink::AreaShrink(int width, int height, int channels, int size)
    : row_bytes_(width * channels), rows_(covers(height, size)), line_(size * channels), sums_(size * channels)
{
    const std::vector<Cover> columns = covers(width, size);
    size_t most = 0;
    for (const Cover &cover : columns)
        most = std::max(most, cover.shares.size());
    bytes_.assign(most, std::vector<int>(line_.size()));
    shares_.assign(most, std::vector<float>(line_.size()));
    for (size_t k = 0; k < line_.size(); k++) {
        const Cover &cover = columns[k / channels];
        for (size_t t = 0; t < most; t++) {
            const bool has = t < cover.shares.size();
            bytes_[t][k] = (cover.first + (has ? static_cast<int>(t) : 0)) * channels + static_cast<int>(k % channels);
            shares_[t][k] = has ? cover.shares[t] : 0;
        }
    }
}

void AreaShrink::shrink_row(const uint8_t *row)
{
    const size_t count = line_.size();
    float *const line = line_.data();
    std::fill(line, line + count, 0.0f);
    for (size_t t = 0; t < bytes_.size(); t++) {
        const int *const byte = bytes_[t].data();
        const float *const share = shares_[t].data();
        for (size_t k = 0; k < count; k++)
            line[k] += static_cast<float>(row[byte[k]]) * share[k];
    }
}

void AreaShrink::operator()(const uint8_t *image, uint8_t *result)
{
    const float to_integer = 8388608; // 2^23: a float of this size has no fraction, so adding it rounds, ties to even
    const size_t count = sums_.size();
    const uint8_t *shrunk = nullptr; // the row that is in line_
    for (const Cover &cover : rows_) {
        std::fill(sums_.begin(), sums_.end(), 0.0f);
        for (size_t t = 0; t < cover.shares.size(); t++) {
            const uint8_t *const row = image + (cover.first + t) * row_bytes_;
            if (!shrunk || std::memcmp(shrunk, row, row_bytes_) != 0) // rows often repeat in these games
                shrink_row(row);
            shrunk = row;
            for (size_t k = 0; k < count; k++)
                sums_[k] += cover.shares[t] * line_[k];
        }
        for (size_t k = 0; k < count; k++)
            *result++ = static_cast<uint8_t>((sums_[k] + to_integer) - to_integer);
    }
}

} // namespace gpur_atari
