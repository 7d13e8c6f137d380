// SPDX-License-Identifier: MIT
// Shrinks images by averaging areas.
#pragma once

#include <cstdint>
#include <vector>

namespace gpur_atari
{

// Shrinks an image to a square. A pixel of the result is the mean of the area that it covers, where pixels that lie in
// it partly count partly. The additions are in the order of OpenCV's cv::resize with INTER_AREA, and in float as there,
// so the results are the same bits: those that other Atari environments give.
class AreaShrink
{
  public:
    // `size`, the side of the square, is less than the width and the height, and divides not both.
    AreaShrink(int width, int height, int channels, int size);

    // image (height, width, channels), result (size, size, channels)
    void operator()(const uint8_t *image, uint8_t *result);

  private:
    void shrink_row(const uint8_t *row);

    // For one of the results along an axis: the first number that it covers, and the share that each has in it.
    struct Cover {
        int first;
        std::vector<float> shares;
    };
    static std::vector<Cover> covers(int length, int size);

    int row_bytes_;
    std::vector<Cover> rows_;
    // For each share of a row's pixels, the first, the second, ...: of each number of the result (size * channels) the
    // byte that it belongs to, and the share. Where a pixel of the result covers fewer, the last share is 0.
    std::vector<std::vector<int>> bytes_;
    std::vector<std::vector<float>> shares_;
    std::vector<float> line_; // one row, shrunk: (size * channels)
    std::vector<float> sums_; // of a row of the result, so far: (size * channels)
};

} // namespace gpur_atari
