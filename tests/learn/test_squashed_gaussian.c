/* SPDX-License-Identifier: MIT */
/* The distribution of a GPUR_HEAD_SQUASHED_GAUSSIAN: draws, log-probabilities and gradients against formulas in double,
 * finite differences, the density and PyTorch's numbers; and policies that act by it. */
#include "device/device.h"
#include "learn/acting/policy.h"
#include "reference/reference_learn.h"
#include "reference/reference_replay.h"
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"
#include "support/torch_gaussian.h"
#include "support/torch_unit.h"
#include "test.h"

#include <float.h>
#include <pthread.h>
#include <unistd.h>

enum { B = 50, A = 3, Z_PITCH = 8, ACTION_PITCH = 5, ACTION_NOISE = 16, POLICY_DRAW = 23 };

static gpur_device *device;
static gpur_stream *stream;
static const gpur_grid any_grid = {0, 0, 0};

/* The kernels. */

typedef struct batch {
    float z[B * Z_PITCH], bias[2 * A], slope[B * ACTION_PITCH], log_alpha[1];
    float action[B * ACTION_PITCH], noise[B * A], log_prob[B], dz[B * Z_PITCH];
    gpur_train_state state;
} batch;

/* Means and log sigmas within `mean` and `log_sigma` of 0. */
static void make_batch(batch *b, float mean, float log_sigma)
{
    memset(b, 0, sizeof *b);
    random_floats(1, b->z, B * Z_PITCH);
    random_floats(2, b->bias, 2 * A);
    random_floats(3, b->slope, B * ACTION_PITCH);
    for (int i = 0; i < B * Z_PITCH; i++)
        b->z[i] *= i % Z_PITCH < A ? mean : log_sigma;
    b->state.step = (uint64_t)5 << 32 | 7;
}

/* Runs the kernels on a copy on the device, and reads all of it back. `draws` 0: the noise is given. */
static gpur_status run(batch *b, gpur_grid grid, uint64_t seed, int64_t first_row, int draws, float alpha)
{
    b->log_alpha[0] = logf(alpha);
    batch *const there = upload_to_device(device, b, sizeof *b);
    gpur_gaussian_sample_args sample = {0};
    gpur_gaussian_gradient_args gradient = {0};
    if (!there)
        return GPUR_OUT_OF_MEMORY;
    sample.z = there->z, sample.bias = there->bias, sample.state = &there->state;
    sample.action = there->action, sample.noise = there->noise, sample.log_prob = there->log_prob;
    sample.batch = B, sample.z_pitch = Z_PITCH, sample.action_pitch = ACTION_PITCH;
    sample.first_row = first_row, sample.num_actions = A, sample.seed = seed;
    gradient.z = there->z, gradient.bias = there->bias, gradient.noise = there->noise, gradient.slope = there->slope;
    gradient.log_alpha = there->log_alpha;
    gradient.dz = there->dz, gradient.batch = B, gradient.z_pitch = Z_PITCH, gradient.slope_pitch = ACTION_PITCH;
    gradient.num_actions = A;
    gpur_device_force_grid(device, grid);
    gpur_status status = draws ? gpur_launch_gaussian_sample(stream, gpur_grid_elements(device, B), &sample) : GPUR_OK;
    if (status == GPUR_OK)
        status = gpur_launch_gaussian_gradient(stream, gpur_grid_elements(device, B), &gradient);
    gpur_device_force_grid(device, any_grid);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, b, there, sizeof *b);
    gpur_device_free(device, there);
    return status;
}

/* Two normal numbers from 24 bits of each of two uniform ones [Box & Muller 1958]: the first, or the second. */
static double normal_of(const uint32_t *pair, int is_second)
{
    const double u = ((pair[0] >> 8) + 1) * 0x1p-24, angle = 2 * acos(-1) * (pair[1] >> 8) * 0x1p-24;
    return sqrt(-2 * log(u)) * (is_second ? sin(angle) : cos(angle));
}

/* Normal number i of a train step's draw. */
static double reference_draw(uint64_t seed, uint64_t step, int64_t i)
{
    const uint32_t counter[4] = {(uint32_t)(i / 4), POLICY_DRAW, (uint32_t)step, (uint32_t)(step >> 32)};
    uint32_t bits[4];
    reference_philox(counter, seed, bits);
    return normal_of(bits + (i % 4 < 2 ? 0 : 2), i % 2 == 1);
}

static double mean_of(const batch *b, int row, int k)
{
    return (double)b->z[row * Z_PITCH + k] + (double)b->bias[k];
}

static double log_sigma_of(const batch *b, int row, int k)
{
    return fmax(-20, fmin(2, (double)b->z[row * Z_PITCH + A + k] + (double)b->bias[A + k]));
}

/* Log of the density of tanh(u) with u = mean + sigma n, where 1 - tanh(u)^2 is 1 / cosh(u)^2. */
static double log_prob_of(double u, double n, double log_sigma)
{
    return -n * n / 2 - log_sigma - log(2 * acos(-1)) / 2 + 2 * (double)logl(coshl((long double)u));
}

static void check_row(const batch *b, int row, uint64_t seed, int64_t first_row)
{
    double log_prob = 0, size = 0;
    for (int k = 0; k < A; k++) {
        const double n = reference_draw(seed, b->state.step, (first_row + row) * A + k);
        const double mean = mean_of(b, row, k), log_sigma = log_sigma_of(b, row, k), u = mean + exp(log_sigma) * n;
        CHECK_NEAR(b->noise[row * A + k], n, 3e-6);
        CHECK_NEAR(b->action[row * ACTION_PITCH + k], tanh(u), 1e-6 + 2e-5 * exp(log_sigma) / pow(cosh(u), 2));
        log_prob += log_prob_of(u, n, log_sigma);
        size += fabs(u) + 1 + exp(log_sigma) * 10;
    }
    CHECK_NEAR(b->log_prob[row], log_prob, 2e-6 * size + 2e-5);
}

TEST(draws_and_their_log_probabilities_follow_from_seed_step_row_and_component_also_where_tanh_is_flat)
{
    static const gpur_grid grids[] = {{0, 0, 0}, {1, 32, 0}, {3, 64, 0}, {7, 32, 0}};
    static const float sizes[][2] = {{1, 1}, {4, 4}, {30, 2}, {300, 2}, {2, 60}};
    static batch b, first;
    for (int s = 0; s < 5; s++)
        for (int g = 0; g < 4; g++) {
            const int64_t first_row = s == 3 ? B : 0;
            make_batch(&b, sizes[s][0], sizes[s][1]);
            CHECK_OK(run(&b, grids[g], (uint64_t)3 << 40 | 9, first_row, 1, 1));
            for (int row = 0; row < B; row++)
                check_row(&b, row, (uint64_t)3 << 40 | 9, first_row);
            if (g == 0)
                first = b;
            CHECK(memcmp(&b, &first, sizeof b) == 0); /* whatever the launch shape */
        }
}

/* alpha log pi - sum of slope_k a_k, of row `row` over the batch, with one input moved by h. */
static double loss_of(const batch *b, int row, double alpha, int column, double h)
{
    double loss = 0;
    for (int k = 0; k < A; k++) {
        const double mean = mean_of(b, row, k) + (column == k ? h : 0);
        const double raw = (double)b->z[row * Z_PITCH + A + k] + (double)b->bias[A + k] + (column == A + k ? h : 0);
        const double log_sigma = fmax(-20, fmin(2, raw));
        const double n = (double)b->noise[row * A + k], u = mean + exp(log_sigma) * n;
        loss += alpha * log_prob_of(u, n, log_sigma) - (double)b->slope[row * ACTION_PITCH + k] * tanh(u);
    }
    return loss / B;
}

TEST(gradients_are_finite_differences_and_those_of_clipped_log_sigmas_are_0)
{
    static const float sizes[][2] = {{1, 1}, {4, 3}, {12, 1}, {2, 40}};
    static batch b;
    int clipped = 0;
    for (int s = 0; s < 4; s++) {
        const double alpha = s % 2 ? 0.3 : 1.25, h = 1e-5;
        make_batch(&b, sizes[s][0], sizes[s][1]);
        CHECK_OK(run(&b, any_grid, 4, 0, 1, (float)alpha));
        for (int i = 0; i < B * 2 * A; i++) {
            const int row = i / (2 * A), column = i % (2 * A);
            const double raw = (double)b.z[row * Z_PITCH + column] + (double)b.bias[column];
            const double got = (double)b.dz[row * Z_PITCH + column];
            const double want = (loss_of(&b, row, alpha, column, h) - loss_of(&b, row, alpha, column, -h)) / (2 * h);
            CHECK_NEAR(got * B, want * B, 2e-5 * (1 + fabs(want) * B));
            if (column >= A && (raw < -20 || raw > 2)) {
                CHECK(b.dz[row * Z_PITCH + column] == 0);
                clipped++;
            }
        }
    }
    CHECK(clipped > 100);
}

/* Where tanh is flat for any float32, the gradients are those of the limit: a = 1 and 1 - a^2 = 0. */
TEST(at_the_bounds_of_actions_everything_is_finite_and_exact)
{
    static batch b;
    make_batch(&b, 0, 0);
    memset(b.bias, 0, sizeof b.bias);
    for (int i = 0; i < B * Z_PITCH; i++)
        b.z[i] = i % Z_PITCH < A ? (i % 2 ? 1e4f : -1e4f) : 0.0f;
    CHECK_OK(run(&b, any_grid, 5, 0, 1, 0.5f));
    for (int i = 0; i < B * A; i++) {
        const int row = i / A, k = i % A, at = row * Z_PITCH + k;
        const float side = b.z[at] > 0 ? 1.0f : -1.0f;
        CHECK(b.action[row * ACTION_PITCH + k] == side);
        CHECK_NEAR(b.dz[at] * B, 0.5 * 2 * (double)side, 1e-6);
        CHECK_NEAR(b.dz[at + A] * B, 0.5 * (2 * (double)side * (double)b.noise[i] - 1), 1e-5);
        CHECK_NEAR(b.log_prob[row], 2 * 3 * (1e4 - log(2)), 100);
    }
    for (int i = 0; i < B * Z_PITCH; i++)
        b.z[i] = i % Z_PITCH < A ? 1e30f : 1e30f;
    CHECK_OK(run(&b, any_grid, 5, 0, 1, 0.5f));
    for (int row = 0; row < B; row++)
        CHECK(isfinite(b.log_prob[row]) && b.action[row * ACTION_PITCH] == 1.0f && isfinite(b.dz[row * Z_PITCH]));
}

TEST(log_probabilities_and_gradients_are_pytorchs)
{
    static batch b;
    for (int first = 0; first < TORCH_ROWS; first += B) {
        const int rows = TORCH_ROWS - first < B ? TORCH_ROWS - first : B;
        make_batch(&b, 0, 0);
        memset(b.bias, 0, sizeof b.bias);
        for (int i = 0; i < rows * A; i++) {
            const int row = i / A, k = i % A;
            const uint32_t n = (uint32_t)(first * A + i);
            b.z[row * Z_PITCH + k] = 4 * (float)(2 * torch_unit(n, 1) - 1);
            b.z[row * Z_PITCH + A + k] = 3 * (float)(2 * torch_unit(n, 2) - 1);
            b.slope[row * ACTION_PITCH + k] = 2 * (float)(2 * torch_unit(n, 3) - 1);
            b.noise[i] = 3 * (float)(2 * torch_unit(n, 4) - 1);
        }
        CHECK_OK(run(&b, any_grid, 0, 0, 0, TORCH_ALPHA));
        for (int row = 0; row < rows; row++) {
            const double *const want = torch_rows[first + row];
            double log_prob = 0;
            for (int k = 0; k < A; k++) {
                const double n = (double)b.noise[row * A + k], log_sigma = log_sigma_of(&b, row, k);
                log_prob += log_prob_of(mean_of(&b, row, k) + exp(log_sigma) * n, n, log_sigma);
                CHECK_NEAR(b.dz[row * Z_PITCH + k] * B, want[1 + k] * TORCH_ROWS, 2e-5);
                CHECK_NEAR(b.dz[row * Z_PITCH + A + k] * B, want[1 + A + k] * TORCH_ROWS, 1e-4);
            }
            CHECK_NEAR(log_prob, want[0], 1e-6 * (1 + fabs(want[0]))); /* the reference that draws are compared with */
        }
    }
}

/* Policies. */

enum { FEATURES = 4, SIZE = 5, MAX_COUNT = 64, CELLS = 50, PAIRS = 8, SEED = 11 };

static gpur_policy_config config_of(uint64_t seed, int32_t streams)
{
    gpur_policy_config c;
    (void)gpur_policy_config_init(&c, sizeof c);
    c.network = network_fixture_config(8, 0, GPUR_TANH, GPUR_HEAD_SQUASHED_GAUSSIAN, 0, SIZE);
    c.obs = (gpur_field){"obs", GPUR_FLOAT32, {FEATURES}};
    c.seed = seed, c.streams = streams, c.max_batch = MAX_COUNT;
    return c;
}

/* A policy whose mean and log sigma are these for all observations, since only the last biases are not 0; NAN: its
 * network's own. The last tensors are the mean's weight and bias and those of log_std. */
static gpur_policy *policy_of(uint64_t seed, float mean, float log_sigma, int32_t streams)
{
    const gpur_policy_config c = config_of(seed, streams);
    gpur_policy *policy = NULL;
    gpur_status status = gpur_policy_create(device, &c, &policy);
    const int64_t bytes = gpur_policy_weights_bytes(policy), floats = (bytes - 64) / 4;
    unsigned char *const weights = calloc((size_t)bytes + 1, 1);
    if (status == GPUR_OK && !isnan(mean)) {
        status = gpur_policy_get_weights(policy, weights, bytes);
        memset(weights + 64, 0, (size_t)bytes - 64);
        for (int k = 0; k < SIZE; k++) {
            memcpy(weights + 64 + 4 * (floats - SIZE + k), &log_sigma, 4);
            memcpy(weights + 64 + 4 * (floats - 2 * SIZE - SIZE * 8 + k), &mean, 4);
        }
        if (status == GPUR_OK)
            status = gpur_policy_set_weights(policy, weights, bytes);
    }
    free(weights);
    if (status != GPUR_OK)
        fprintf(stderr, "policy_of: %s\n", gpur_last_error());
    return policy;
}

typedef struct rows {
    float obs[MAX_COUNT * FEATURES];
    uint32_t lane[MAX_COUNT];
    uint64_t step[MAX_COUNT];
} rows;

/* Rows first to first + count - 1; the vectors go to the same rows of `vectors`. */
static gpur_status act(gpur_policy *policy, const rows *r, int first, int count, int greedy, float *vectors)
{
    const gpur_policy_input input = {.size = sizeof input,
                                     .count = count,
                                     .obs = r->obs + first * FEATURES,
                                     .lane = r->lane + first,
                                     .step = r->step + first,
                                     .greedy = greedy};
    const gpur_policy_output output = {.size = sizeof output, .action_vectors = vectors + first * SIZE};
    return gpur_policy_act(policy, &input, &output);
}

static void make_rows(rows *r, uint64_t seed)
{
    uint64_t state = seed + 1;
    random_floats(seed, r->obs, MAX_COUNT * FEATURES);
    for (int i = 0; i < MAX_COUNT; i++) {
        r->lane[i] = i % 5 == 0 ? UINT32_MAX - (uint32_t)i : (uint32_t)i;
        r->step[i] = i % 3 == 0 ? xorshift_next(&state) : (uint64_t)i;
    }
}

static double reference_noise(uint64_t seed, uint64_t step, uint32_t lane, int k)
{
    const uint32_t counter[4] = {lane, ACTION_NOISE + ((uint32_t)(k / 4) << 16), (uint32_t)step,
                                 (uint32_t)(step >> 32)};
    uint32_t bits[4];
    reference_philox(counter, seed, bits);
    return normal_of(bits + (k % 4 < 2 ? 0 : 2), k % 2 == 1);
}

/* The policy's network in double; NULL: its weights could not be had. */
static ref_net *reference_of(gpur_policy *policy)
{
    const gpur_policy_config c = config_of(0, 1);
    ref_net *const net = ref_net_create(&c.network, FEATURES);
    const int64_t bytes = gpur_policy_weights_bytes(policy);
    float *const weights = calloc((size_t)bytes, 1);
    const gpur_status status = gpur_policy_get_weights(policy, weights, bytes);
    const float *next = weights + 16;
    for (int i = 0; i < net->tensors; i++)
        for (int n = 0; n < net->tensor[i].count; n++)
            net->tensor[i].w[n] = (double)*next++;
    free(weights);
    if (status == GPUR_OK)
        return net;
    ref_net_destroy(net);
    return NULL;
}

TEST(a_policy_draws_from_its_networks_distribution_or_acts_by_its_mean)
{
    static rows r;
    static float drawn[MAX_COUNT * SIZE], greedy[MAX_COUNT * SIZE];
    static ref_tape tape;
    const uint64_t seed = (uint64_t)SEED << 50 | 3;
    gpur_policy *const policy = policy_of(seed, NAN, NAN, 1);
    CHECK(policy);
    ref_net *const net = reference_of(policy);
    CHECK(net);
    for (int round = 0; round < 4; round++) {
        make_rows(&r, (uint64_t)round * 7 + 1);
        CHECK_OK(act(policy, &r, 0, MAX_COUNT, 0, drawn));
        CHECK_OK(act(policy, &r, 0, MAX_COUNT, 1, greedy));
        for (int i = 0; i < MAX_COUNT * SIZE; i++) {
            const int row = i / SIZE, k = i % SIZE;
            ref_forward(net, 0, r.obs + row * FEATURES, &tape);
            const double noise = reference_noise(seed, r.step[row], r.lane[row], k);
            CHECK_NEAR(greedy[i], tanh(tape.y[k]), 1e-5);
            CHECK_NEAR(drawn[i], tanh(tape.y[k] + exp(tape.y[SIZE + k]) * noise), 5e-5);
        }
    }
    ref_net_destroy(net);
    gpur_policy_destroy(policy);
}

/* P(a <= x) of tanh(u) with u of N(mean, sigma^2). */
static double probability_below(double x, double mean, double sigma)
{
    return x >= 1 ? 1 : x <= -1 ? 0 : 0.5 * erfc(-(atanh(x) - mean) / sigma / sqrt(2));
}

static int cell_of(double p, int cells)
{
    const int cell = (int)(p * cells);
    return cell < cells ? cell : cells - 1;
}

typedef struct statistics {
    int64_t count, cells[CELLS], by_component[PAIRS * PAIRS], by_lane[PAIRS * PAIRS], by_step[PAIRS * PAIRS];
} statistics;

/* Actions of MAX_COUNT lanes at `steps` steps, by the probability that the density gives to all that are smaller. */
static gpur_status gather(gpur_policy *policy, int steps, double mean, double sigma, statistics *s)
{
    static rows r;
    static float actions[MAX_COUNT * SIZE];
    static double p[2][MAX_COUNT * SIZE];
    memset(s, 0, sizeof *s);
    memset(&r, 0, sizeof r);
    for (int t = 0; t < steps; t++) {
        double *const now = p[t % 2], *const before = p[1 - t % 2];
        for (int i = 0; i < MAX_COUNT; i++)
            r.lane[i] = (uint32_t)i, r.step[i] = (uint64_t)t;
        GPUR_TRY(act(policy, &r, 0, MAX_COUNT, 0, actions));
        for (int i = 0; i < MAX_COUNT * SIZE; i++)
            now[i] = probability_below((double)actions[i], mean, sigma);
        for (int i = 0; i < MAX_COUNT * SIZE; i++) {
            const int pair = cell_of(now[i], PAIRS) * PAIRS;
            s->count++, s->cells[cell_of(now[i], CELLS)]++;
            if (i % SIZE % 2 == 0 && i % SIZE + 1 < SIZE) /* sine and cosine of one radius */
                s->by_component[pair + cell_of(now[i + 1], PAIRS)]++;
            if (i / SIZE % 2 == 0)
                s->by_lane[pair + cell_of(now[i + SIZE], PAIRS)]++;
            if (t % 2 == 1)
                s->by_step[pair + cell_of(before[i], PAIRS)]++;
        }
    }
    return GPUR_OK;
}

/* 10^6 draws. Limits that one seed in millions crosses by chance; the seed is fixed. */
TEST(draws_have_the_density_and_are_independent_between_components_lanes_and_steps)
{
    static const double cases[][2] = {{0, 0.5}, {0.6, 1.5}, {-1.2, 0.1}};
    static statistics s;
    for (int i = 0; i < 3; i++) {
        const float log_sigma = logf((float)cases[i][1]);
        gpur_policy *const policy = policy_of(SEED + (uint64_t)i, (float)cases[i][0], log_sigma, 1);
        CHECK(policy);
        CHECK_OK(gather(policy, i == 0 ? 3200 : 800, cases[i][0], cases[i][1], &s));
        CHECK(i > 0 || s.count >= 1000000);
        CHECK(chi_square_tail(chi_square_statistic(s.cells, CELLS), CELLS - 1) > 1e-6);
        CHECK(chi_square_tail(chi_square_statistic(s.by_component, PAIRS * PAIRS), PAIRS * PAIRS - 1) > 1e-6);
        CHECK(chi_square_tail(chi_square_statistic(s.by_lane, PAIRS * PAIRS), PAIRS * PAIRS - 1) > 1e-6);
        CHECK(chi_square_tail(chi_square_statistic(s.by_step, PAIRS * PAIRS), PAIRS * PAIRS - 1) > 1e-6);
        gpur_policy_destroy(policy);
    }
}

/* The log-probability is that of the density: the slope of the distribution that the draws have been compared with. */
TEST(log_probabilities_are_logs_of_the_density)
{
    static batch b;
    make_batch(&b, 1.5f, 1);
    CHECK_OK(run(&b, any_grid, 6, 0, 1, 1));
    for (int row = 0; row < B; row++) {
        double log_density = 0, least = 1;
        for (int k = 0; k < A; k++) {
            const double a = (double)b.action[row * ACTION_PITCH + k], mean = mean_of(&b, row, k);
            const double sigma = exp(log_sigma_of(&b, row, k)), h = 1e-4 * (1 - a * a);
            const double up = probability_below(a + h, mean, sigma), down = probability_below(a - h, mean, sigma);
            log_density += log((up - down) / (2 * h));
            least = fmin(least, 1 - a * a);
        }
        if (least > 1e-3) /* nearer to the bounds a float32 does not tell the action */
            CHECK_NEAR(b.log_prob[row], log_density, 2e-3);
    }
}

/* Draws of a train step over many rows, all components: 10^6. */
TEST(draws_of_train_steps_are_normal_and_those_of_other_steps_and_rows_are_others)
{
    enum { STEPS = 7000 };
    static batch b;
    static int64_t cells[CELLS], by_pair[PAIRS * PAIRS], by_step[PAIRS * PAIRS];
    static double p[2][B * A];
    memset(cells, 0, sizeof cells), memset(by_pair, 0, sizeof by_pair), memset(by_step, 0, sizeof by_step);
    batch *const there = upload_to_device(device, &b, sizeof b);
    CHECK(there);
    gpur_gaussian_sample_args sample = {0};
    sample.z = there->z, sample.bias = there->bias, sample.state = &there->state;
    sample.action = there->action, sample.noise = there->noise, sample.log_prob = there->log_prob;
    sample.batch = B, sample.z_pitch = Z_PITCH, sample.action_pitch = ACTION_PITCH;
    sample.num_actions = A, sample.seed = SEED;
    make_batch(&b, 0, 0);
    for (int t = 0; t < STEPS; t++) {
        b.state.step = (uint64_t)t;
        CHECK_OK(gpur_device_copy(device, &there->state, &b.state, sizeof b.state));
        CHECK_OK(gpur_launch_gaussian_sample(stream, gpur_grid_elements(device, B), &sample));
        CHECK_OK(gpur_stream_sync(stream));
        CHECK_OK(gpur_device_copy(device, b.noise, there->noise, sizeof b.noise));
        for (int i = 0; i < B * A; i++) {
            p[t % 2][i] = 0.5 * erfc(-(double)b.noise[i] / sqrt(2));
            cells[cell_of(p[t % 2][i], CELLS)]++;
            if (i % 2 == 1)
                by_pair[cell_of(p[t % 2][i - 1], PAIRS) * PAIRS + cell_of(p[t % 2][i], PAIRS)]++;
            if (t % 2 == 1)
                by_step[cell_of(p[0][i], PAIRS) * PAIRS + cell_of(p[1][i], PAIRS)]++;
        }
    }
    gpur_device_free(device, there);
    CHECK(STEPS * B * A >= 1000000);
    CHECK(chi_square_tail(chi_square_statistic(cells, CELLS), CELLS - 1) > 1e-6);
    CHECK(chi_square_tail(chi_square_statistic(by_pair, PAIRS * PAIRS), PAIRS * PAIRS - 1) > 1e-6);
    CHECK(chi_square_tail(chi_square_statistic(by_step, PAIRS * PAIRS), PAIRS * PAIRS - 1) > 1e-6);
}

/* Calls and threads. */

typedef struct part {
    gpur_policy *policy;
    const rows *r;
    int index;
    float vectors[MAX_COUNT * SIZE];
    gpur_status status;
    pthread_t thread;
} part;

/* All rows, in calls of 1 to 13 of them. */
static void *act_in_parts(void *argument)
{
    part *const p = argument;
    uint64_t state = (uint64_t)p->index + 1;
    for (int first = 0; first < MAX_COUNT && p->status == GPUR_OK;) {
        const int most = (int)xorshift_below(&state, 13) + 1, left = MAX_COUNT - first,
                  count = most < left ? most : left;
        p->status = act(p->policy, p->r, first, count, 0, p->vectors);
        first += count;
    }
    return NULL;
}

/* The network's outputs are the same for all observations, so that not even their last bits differ with the call. */
TEST(calls_threads_and_streams_change_no_bit_of_a_draw)
{
    enum { THREADS = 4 };
    static rows r;
    static float all[MAX_COUNT * SIZE];
    static part parts[THREADS];
    gpur_policy *const policy = policy_of(SEED, 0.25f, -0.5f, 3);
    CHECK(policy);
    make_rows(&r, 5);
    CHECK_OK(act(policy, &r, 0, MAX_COUNT, 0, all));
    for (int i = 0; i < THREADS; i++) {
        parts[i] = (part){.policy = policy, .r = &r, .index = i};
        CHECK(pthread_create(&parts[i].thread, NULL, act_in_parts, &parts[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(parts[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(parts[i].status);
        CHECK(memcmp(parts[i].vectors, all, sizeof all) == 0);
    }
    gpur_policy_destroy(policy);
}

TEST(a_policys_file_describes_it)
{
    static rows r;
    static float want[MAX_COUNT * SIZE], got[MAX_COUNT * SIZE];
    const char *const path = "squashed_gaussian.safetensors";
    gpur_policy *const policy = policy_of(SEED, NAN, NAN, 1);
    gpur_policy *opened = NULL;
    CHECK(policy);
    make_rows(&r, 6);
    CHECK_OK(act(policy, &r, 0, MAX_COUNT, 0, want));
    const gpur_status saved = gpur_policy_save(policy, path, NULL);
    if (saved == GPUR_OK) { /* else it is a build without files */
        const gpur_policy_config c = config_of(SEED, 1);
        CHECK_OK(gpur_policy_open(device, path, &c, &opened));
        CHECK_OK(act(opened, &r, 0, MAX_COUNT, 0, got));
        CHECK(memcmp(got, want, sizeof got) == 0);
        gpur_policy_destroy(opened);
        CHECK(remove(path) == 0);
    }
    CHECK(saved == GPUR_OK || saved == GPUR_UNAVAILABLE);
    gpur_policy_destroy(policy);
}

#define REFUSED(policy, setting, message)                                                                              \
    do {                                                                                                               \
        gpur_policy_input in = {.size = sizeof in, .count = 2, .obs = obs};                                            \
        gpur_policy_output out = {.size = sizeof out, .action_vectors = vectors};                                      \
        setting;                                                                                                       \
        CHECK_FAILS(gpur_policy_act(policy, &in, &out), GPUR_INVALID_ARGUMENT, message);                               \
    } while (0)

TEST(bad_calls_are_refused_and_compute_nothing)
{
    float obs[2 * FEATURES] = {0}, vectors[2 * SIZE] = {7}, sigma[2] = {0.1f, 0.1f};
    int32_t actions[2];
    const char *const others = "actions, q, probabilities, values, epsilon or sigma is given; a policy with "
                               "GPUR_HEAD_SQUASHED_GAUSSIAN has action_vectors and greedy";
    gpur_policy *const policy = policy_of(1, 0, 0, 1);
    CHECK(policy);
    REFUSED(policy, out.action_vectors = NULL, "action_vectors, which gets the results, is NULL");
    REFUSED(policy, out.actions = actions, others);
    REFUSED(policy, out.q = vectors, others);
    REFUSED(policy, in.epsilon = sigma, others);
    REFUSED(policy, in.sigma = sigma, others);
    REFUSED(policy, in.greedy = 2, "greedy is 2; it must be 0 or 1");
    REFUSED(policy, in.count = MAX_COUNT + 1, "count is 65; it must be 1 to max_batch, 64");
    CHECK(vectors[0] == 7);
    gpur_policy_destroy(policy);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(draws_and_their_log_probabilities_follow_from_seed_step_row_and_component_also_where_tanh_is_flat);
    RUN(gradients_are_finite_differences_and_those_of_clipped_log_sigmas_are_0);
    RUN(at_the_bounds_of_actions_everything_is_finite_and_exact);
    RUN(log_probabilities_and_gradients_are_pytorchs);
    RUN(log_probabilities_are_logs_of_the_density);
    RUN(a_policy_draws_from_its_networks_distribution_or_acts_by_its_mean);
    if (!IN_RACE_CHECK) {
        RUN(draws_have_the_density_and_are_independent_between_components_lanes_and_steps);
        RUN(draws_of_train_steps_are_normal_and_those_of_other_steps_and_rows_are_others);
        RUN(calls_threads_and_streams_change_no_bit_of_a_draw);
        RUN(a_policys_file_describes_it);
        RUN(bad_calls_are_refused_and_compute_nothing);
    }
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
