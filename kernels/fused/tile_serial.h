/* SPDX-License-Identifier: MIT */
/* The serial body of a task: one thread computes one tile. It copies B into a panel that stays in the first-level
 * cache, whatever B's layout, and its innermost loop is a row of independent sums, which vectorizes. */
#pragma once

#include "kernels/fused/tile_gemm.h"

enum { GPUR_PANEL_DEPTH = 64, GPUR_PANEL_WIDTH = GPUR_SMALL_SIDE };

/* `count` k of B from `first` on (counted over the whole product). Each k is a row with the tile's columns; columns
 * after the tile's last are zeros. */
typedef struct gpur_panel {
    int32_t first, count;
    float b[GPUR_PANEL_DEPTH][GPUR_PANEL_WIDTH];
} gpur_panel;

GPUR_FN void gpur_panel_fill(const gpur_tile *tile, int32_t done, gpur_panel *panel)
{
    const gpur_gemm_operand *const b = &tile->gemm->b;
    panel->first = tile->k + done;
    panel->count = gpur_min_i32(tile->k_count - done, GPUR_PANEL_DEPTH);
    for (int32_t k = 0; k < panel->count; k++)
        for (int32_t j = 0; j < GPUR_PANEL_WIDTH; j++)
            panel->b[k][j] = j < tile->columns ? gpur_gemm_operand_at(b, tile->column + j, panel->first + k) : 0.0f;
}

/* Adds the products of one row of A to that row's sums. `a`: (count) the row's numbers at the panel's k. */
GPUR_FN void gpur_panel_add(const gpur_panel *panel, const float *a, float *sums)
{
    float row[GPUR_PANEL_WIDTH];
    for (int j = 0; j < GPUR_PANEL_WIDTH; j++)
        row[j] = sums[j];
    for (int32_t k = 0; k < panel->count; k++)
        for (int j = 0; j < GPUR_PANEL_WIDTH; j++)
            row[j] += a[k] * panel->b[k][j];
    for (int j = 0; j < GPUR_PANEL_WIDTH; j++)
        sums[j] = row[j];
}

/* The sums of a tile. */
typedef struct gpur_serial_sums {
    float c[GPUR_SERIAL_ROWS][GPUR_PANEL_WIDTH];
    float a[GPUR_SERIAL_ROWS];
} gpur_serial_sums;

GPUR_FN void gpur_panel_rows(const gpur_tile *tile, const gpur_panel *panel, gpur_serial_sums *sums)
{
    float a[GPUR_PANEL_DEPTH];
    for (int32_t i = 0; i < tile->rows; i++) {
        for (int32_t k = 0; k < panel->count; k++)
            a[k] = gpur_gemm_operand_at(&tile->gemm->a, tile->row + i, panel->first + k);
        for (int32_t k = 0; k < panel->count && gpur_tile_has_sums(tile); k++)
            sums->a[i] += a[k];
        gpur_panel_add(panel, a, sums->c[i]);
    }
}

GPUR_FN void gpur_tile_serial(const gpur_tile *tile)
{
    gpur_panel panel;
    gpur_serial_sums sums;
    memset(&sums, 0, sizeof sums);
    for (int32_t done = 0; done < tile->k_count; done += GPUR_PANEL_DEPTH) {
        gpur_panel_fill(tile, done, &panel);
        gpur_panel_rows(tile, &panel, &sums);
    }
    for (int32_t i = 0; i < tile->rows; i++) {
        for (int32_t j = 0; j < tile->columns; j++)
            gpur_tile_store(tile, i, j, sums.c[i][j], gpur_tile_bias(tile, j));
        if (gpur_tile_has_sums(tile))
            *gpur_tile_sum_at(tile, i) = sums.a[i];
    }
}
