/* lm_charts.h, a part of lm.c: the losses of a run, its .loss.csv and .loss.svg, and losses by
 * position. */
#ifndef LM_CHARTS_H
#define LM_CHARTS_H

#include <math.h>

#include "lm_tools.h"

#define UNKNOWN ((double)NAN) /* a loss that was not measured */

/* The summed loss of so many tokens. */
typedef struct score { double nats; size_t targets; } score;

static double mean(score s) { return s.targets ? s.nats / (double)s.targets : UNKNOWN; }

/* Losses by position: bin 0 is the first token, bin i has those from 2^(i-1) up to 2^i. */
enum { BINS = 40 };

typedef struct record { float *loss, *val; size_t count, room; } record; /* NAN: not measured */

static void record_add(record *r, size_t step, float loss, float val) {
  while (r->room <= step) {
    r->room = r->room ? r->room * 2 : 1024;
    r->loss = (float *)grow(r->loss, r->room, sizeof(float));
    r->val = (float *)grow(r->val, r->room, sizeof(float));
  }
  for (; r->count <= step; r->count++) r->loss[r->count] = r->val[r->count] = NAN;
  if (!isnan(loss)) r->loss[step] = loss;
  if (!isnan(val)) r->val[step] = val;
}

/* Mean training loss over steps from..to-1. */
static double record_mean(const record *r, size_t from, size_t to) {
  double sum = 0, n = 0;
  for (; from < to; from++)
    if (!isnan(r->loss[from])) sum += (double)r->loss[from], n++;
  return n > 0 ? sum / n : UNKNOWN;
}

static void record_load(record *r, const char *path, size_t steps) {
  char line[128];
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f)) {
    char *end;
    unsigned long step = strtoul(line, &end, 10);
    double loss, val = UNKNOWN;
    if (end == line || *end != ',' || step == 0 || step > steps) continue;
    loss = strtod(end + 1, &end);
    if (*end == ',' && end[1] != '\n') val = strtod(end + 1, &end);
    record_add(r, step - 1, (float)loss, (float)val);
  }
  if (f) fclose(f);
}

static void record_csv(const record *r, const char *path) {
  FILE *f = create(path);
  size_t i;
  fprintf(f, "step,loss,validation\n");
  for (i = 0; i < r->count; i++) {
    if (isnan(r->loss[i])) continue;
    fprintf(f, "%lu,%.9g,", (unsigned long)(i + 1), (double)r->loss[i]);
    if (!isnan(r->val[i])) fprintf(f, "%.9g", (double)r->val[i]);
    fputc('\n', f);
  }
  finish(f, path);
}

/* A round distance between ticks: about count of them in span. */
static double tick(double span, int count) {
  double raw = span / count, unit = pow(10, floor(log10(raw))), x = raw / unit;
  return unit * (x < 1.5 ? 1 : x < 3.5 ? 2 : x < 7.5 ? 5 : 10);
}

/* A chart of losses: its frame, and losses from low to high inside. */
static const double left = 74, right = 656, top = 56, bottom = 392;
typedef struct chart { double low, high; } chart;

static double chart_y(const chart *c, double loss) {
  return bottom - (bottom - top) * (loss - c->low) / (c->high - c->low);
}

static const char loss_unit[] = "loss (nats per token)";

/* A line: its name, its colour, and where it ends. */
typedef struct chart_line { const char *name, *colour; double x, y; } chart_line;

/* The first is what learns, and blue, as a model that learns is in every picture of the project. */
static const char *const chart_colour[4] = {"#2563eb", "#ea580c", "#64748b", "#0891b2"};

/* Names at the ends of the lines, the highest first, so that none lies on another. */
static void chart_names(FILE *f, chart_line *line, int count) {
  double above = top;
  int i, k;
  for (i = 0; i < count; i++) {
    for (k = i + 1; k < count; k++)
      if (line[k].y < line[i].y) {
        const chart_line other = line[i];
        line[i] = line[k], line[k] = other;
      }
    if (line[i].y < above) line[i].y = above;
    if (line[i].y > bottom - 16 * (count - 1 - i)) line[i].y = bottom - 16 * (count - 1 - i);
    above = line[i].y + 16;
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\" font-weight=\"bold\">%s</text>\n",
            line[i].x + 10, line[i].y + 4.5, line[i].colour, line[i].name);
  }
}

/* The file, its title, the grid of losses and both axes; c is widened to round numbers. */
static FILE *chart_open(chart *c, const char *path, const char *title, const char *across,
                        const char *up) {
  double step = tick(c->high - c->low, 6), t;
  int decimals = step < 0.095 ? 2 : step < 0.95 ? 1 : 0;
  FILE *f = create(path);
  c->low = floor(c->low / step) * step;
  c->high = ceil(c->high / step) * step;
  fprintf(f,
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 820 460\" width=\"820\" "
    "height=\"460\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" "
    "fill=\"#475569\">\n<rect width=\"820\" height=\"460\" fill=\"#ffffff\"/>\n"
    "<text x=\"%g\" y=\"32\" font-size=\"17\" font-weight=\"bold\" fill=\"#0f172a\">%s</text>\n",
    left, title);
  for (t = c->low; t < c->high + step / 2; t += step)
    fprintf(f, "<path d=\"M%g %.1fH%g\" stroke=\"#e2e8f0\"/>"
               "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n",
            left, chart_y(c, t), right, left - 10, chart_y(c, t) + 4.5, decimals, t);
  fprintf(f, "<path d=\"M%g %gV%gH%g\" fill=\"none\" stroke=\"#94a3b8\"/>\n", left, top, bottom,
          right);
  fprintf(f, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text>\n", (left + right) / 2,
          bottom + 48, across);
  fprintf(f, "<text transform=\"translate(24 %g) rotate(-90)\" text-anchor=\"middle\">"
             "%s</text>\n", (top + bottom) / 2, up);
  return f;
}

/* A mark below the horizontal axis. */
static void chart_tick(FILE *f, double x, const char *text) {
  fprintf(f, "<path d=\"M%.1f %gv6\" stroke=\"#94a3b8\"/>"
             "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%s</text>\n",
          x, bottom, x, bottom + 23, text);
}

static void chart_close(FILE *f, const char *path, chart_line *line, int count) {
  chart_names(f, line, count);
  fprintf(f, "</svg>\n");
  finish(f, path);
}

static void record_svg(const record *r, const char *path, const char *title) {
  chart c;
  double low = HUGE_VAL, high = -HUGE_VAL, step, t;
  chart_line line[2] = {{"training", chart_colour[0], 0, 0}, {NULL, chart_colour[1], 0, 0}};
  size_t bins = r->count < 240 ? r->count : 240, i;
  char text[32];
  FILE *f;
  if (r->count < 2) return;
#define BIN(i) ((i) * r->count / bins)
#define X(step) (left + (right - left) * (step) / (double)r->count)
#define Y(loss) chart_y(&c, loss)
  for (i = 0; i < bins; i++) {
    double y = record_mean(r, BIN(i), BIN(i + 1));
    if (y < low) low = y;
    if (y > high) high = y;
  }
  for (i = 0; i < r->count; i++) {
    if ((double)r->val[i] < low) low = (double)r->val[i];
    if ((double)r->val[i] > high) high = (double)r->val[i];
  }
  if (!(high > low)) return;
  c.low = low;
  c.high = high;
  f = chart_open(&c, path, title, "step", loss_unit);
  step = tick((double)r->count, 7);
  if (step < 1) step = 1;
  for (t = 0; t < (double)r->count + step / 100; t += step) {
    snprintf(text, sizeof text, "%.0f", t);
    chart_tick(f, X(t), text);
  }

  fprintf(f, "<g fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\">\n");
  fprintf(f, "<path stroke=\"%s\" d=\"", line[0].colour);
  for (i = 0, t = 0; i < bins; i++) {
    double x = ((double)BIN(i) + (double)BIN(i + 1)) / 2, y = record_mean(r, BIN(i), BIN(i + 1));
    if (isnan(y)) continue;
    line[0].x = X(x), line[0].y = Y(y);
    fprintf(f, "%c%.1f %.1f", t > 0 ? 'L' : 'M', line[0].x, line[0].y);
    t = 1;
  }
  fprintf(f, "\"/>\n<path stroke=\"%s\" d=\"", line[1].colour);
  for (i = 0, t = 0; i < r->count; i++) {
    if (isnan(r->val[i])) continue;
    line[1].x = X((double)i + 1), line[1].y = Y((double)r->val[i]);
    snprintf(text, sizeof text, "validation %.3f", (double)r->val[i]);
    fprintf(f, "%c%.1f %.1f", t > 0 ? 'L' : 'M', line[1].x, line[1].y);
    t = 1;
  }
  fprintf(f, "\"/>\n</g>\n");
  line[1].name = text;
  if (t > 0)
    fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", line[1].x, line[1].y,
            line[1].colour);
  chart_close(f, path, line, t > 0 ? 2 : 1);
#undef BIN
#undef X
#undef Y
}

/* Losses by position, in windows and in one pass, over the logarithm of the position. A bin of less
 * than `few` tokens says nothing and is left out. */
static void positions_svg(const score windows[BINS], const score stream[BINS], const char *path,
                          const char *title) {
  const score *line[2];
  chart_line name[2] = {{"in windows", chart_colour[0], 0, 0},
                        {"in one pass", chart_colour[1], 0, 0}};
  chart c = {HUGE_VAL, -HUGE_VAL};
  const size_t few = 32;
  int last = 0, i, k;
  FILE *f;
  line[0] = windows, line[1] = stream;
  for (i = 0; i < BINS; i++)
    for (k = 0; k < 2; k++) {
      if (line[k][i].targets < few) continue;
      last = i;
      if (mean(line[k][i]) < c.low) c.low = mean(line[k][i]);
      if (mean(line[k][i]) > c.high) c.high = mean(line[k][i]);
    }
  if (!(c.high > c.low)) return;
#define X(i) (left + (right - left) * ((i) + 0.5) / (last + 1))
  f = chart_open(&c, path, title, "position (tokens since the memory was empty)", loss_unit);
  for (i = 0; i <= last; i += 2) {
    char text[32];
    double at = i ? pow(2, i - 1) : 0;
    if (at < 1e4) snprintf(text, sizeof text, "%.0f", at);
    else snprintf(text, sizeof text, "%.0fk", at / 1024);
    chart_tick(f, X(i), text);
  }
  for (k = 0; k < 2; k++) {
    char letter = 'M';
    fprintf(f, "<path fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke=\"%s\" "
               "d=\"", name[k].colour);
    for (i = 0; i <= last; i++) {
      if (line[k][i].targets < few) continue;
      name[k].x = X(i), name[k].y = chart_y(&c, mean(line[k][i]));
      fprintf(f, "%c%.1f %.1f", letter, name[k].x, name[k].y);
      letter = 'L';
    }
    fprintf(f, "\"/>\n");
  }
#undef X
  chart_close(f, path, name, 2);
}

#endif
