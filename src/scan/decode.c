/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode - finds base64, hex, percent and \u encoded text and makes a view in which it is
 * plain. Only what decodes to printable ASCII counts: anything else is not a secret that
 * somebody wrote down in that encoding.
 *
 * Every byte of every file passes here, so the search goes by 64 bytes at a time and
 * stops only at runs of at least RUN_MIN word characters and at % and \ signs.
 */
#include "scan/view.h"

#include "base/buf.h"
#include "base/util.h"

#include <ctype.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define RUN_MIN 16 /* shorter base64 carries no secret */
#define HEX_MIN 32
#define BULK 32 /* blocks classified at a time */
#define CONTEXT \
	256u /* bytes kept around a decoded piece: rules look at names before it */

struct decoder {
	const unsigned char *t;
	size_t len;
	struct buf text; /* decoded pieces, one behind the other */
	struct piece {
		size_t start, end; /* in t */
		size_t at, len;    /* in text */
	} * piece;
	size_t n, cap;
	bool failed;
};

/* ---- classes ---------------------------------------------------------------------- */

/* Values of base64 digits of both alphabets, plus one; 0: no word character. */
static const unsigned char base64_digit[256] = {
	['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,
	['G'] = 7,  ['H'] = 8,  ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12,
	['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18,
	['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
	['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30,
	['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36,
	['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42,
	['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
	['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54,
	['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60,
	['8'] = 61, ['9'] = 62, ['+'] = 63, ['-'] = 63, ['/'] = 64, ['_'] = 64,
};

static inline bool word_byte(unsigned char c)
{
	return base64_digit[c] != 0;
}

static int hex_value(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool printable(int c)
{
	return (c >= ' ' && c < 0x7f) || c == '\t' || c == '\n' || c == '\r';
}

/* ---- pieces ----------------------------------------------------------------------- */

static void add_piece(struct decoder *d, size_t start, size_t end, const void *text,
		      size_t len)
{
	if (d->n == d->cap) {
		size_t cap = d->cap ? 2 * d->cap : 16;
		struct piece *p = reallocarray(d->piece, cap, sizeof(*p));

		if (!p) {
			d->failed = true;
			return;
		}
		d->piece = p;
		d->cap = cap;
	}
	d->piece[d->n] = (struct piece){start, end, d->text.len, len};
	if (buf_append(&d->text, text, len) < 0)
		d->failed = true;
	else
		d->n++;
}

static bool decode_hex(struct decoder *d, size_t start, size_t end)
{
	size_t n = (end - start) / 2;
	cleanup_free char *out = NULL;

	if ((end - start) % 2)
		return false;
	for (size_t i = 0; i < n; i++) /* most often the first pair says no */
		if (!printable(hex_value(d->t[start + 2 * i]) << 4 |
			       hex_value(d->t[start + 2 * i + 1])))
			return false;
	out = malloc(n + 1);
	for (size_t i = 0; out && i < n; i++)
		out[i] = (char)(hex_value(d->t[start + 2 * i]) << 4 |
				hex_value(d->t[start + 2 * i + 1]));
	if (out)
		add_piece(d, start, end, out, n);
	return out != NULL;
}

/* Decodes into out (NULL: only looks whether it would be printable). */
static bool base64_bytes(const unsigned char *t, size_t n, char *out)
{
	uint32_t acc = 0;
	int bits = 0;

	for (size_t i = 0; i < n; i++) {
		acc = acc << 6 | (base64_digit[t[i]] - 1u);
		bits += 6;
		if (bits < 8)
			continue;
		bits -= 8;
		if (!printable((int)(acc >> bits & 0xff)))
			return false;
		if (out)
			*out++ = (char)(acc >> bits & 0xff);
	}
	return true;
}

static bool decode_base64(struct decoder *d, size_t start, size_t end)
{
	size_t n = end - start, out_len = n * 6 / 8;
	char *out = NULL;

	if (n % 4 == 1 || !base64_bytes(d->t + start, n, NULL))
		return false;
	while (end < d->len && end - start < n + 2 && d->t[end] == '=')
		end++;
	out = malloc(out_len + 1);
	if (out && base64_bytes(d->t + start, n, out))
		add_piece(d, start, end, out, out_len);
	else
		d->failed = true;
	free(out);
	return true;
}

static bool decode_hex_in(struct decoder *d, size_t start, size_t end)
{
	bool any = false;
	size_t hex;

	for (size_t i = start; i < end; i = hex + 1) {
		for (hex = i; hex < end && hex_value(d->t[hex]) >= 0; hex++)
			;
		if (hex - i >= HEX_MIN)
			any = decode_hex(d, i, hex) || any;
	}
	return any;
}

/* Whether enough hex digits in a row can be in there: one of them is then at every 32nd
 * place. */
static inline bool may_hex(const unsigned char *t, size_t n)
{
	for (size_t i = HEX_MIN - 1; i < n; i += HEX_MIN)
		if (hex_value(t[i]) >= 0)
			return true;
	return false;
}

/* The first six bits of a printable byte, or of a tab or line end. */
static inline bool may_start(unsigned char c)
{
	unsigned v = base64_digit[c] - 1u;

	return v == 2 || v == 3 || (v >= 8 && v < 32);
}

/* The second digit has the high half of the second byte in it: 2 to 7, or 0. */
static inline bool may_follow(unsigned char c)
{
	unsigned v = (base64_digit[c] - 1u) & 15;

	return base64_digit[c] && (v == 0 || (v >= 2 && v < 8));
}

/* Most runs are names in a program; the first byte that they would decode to tells. */
static inline bool may_base64(const unsigned char *t)
{
	return printable(((base64_digit[t[0]] - 1) << 2 | (base64_digit[t[1]] - 1) >> 4) &
			 0xff);
}

/* A run of word characters: hex where there is enough of it, else base64 as a whole. */
static inline void take_run(struct decoder *d, size_t start, size_t end)
{
	if (may_hex(d->t + start, end - start) && decode_hex_in(d, start, end))
		return;
	if (may_base64(d->t + start))
		decode_base64(d, start, end);
}

static size_t take_percent(struct decoder *d, size_t at)
{
	char out[256];
	size_t n = 0, i = at;

	while (i + 2 < d->len && d->t[i] == '%' && n < sizeof(out)) {
		int hi = hex_value(d->t[i + 1]), lo = hex_value(d->t[i + 2]);

		if (hi < 0 || lo < 0 || !printable(hi << 4 | lo))
			break;
		out[n++] = (char)(hi << 4 | lo);
		i += 3;
	}
	if (n)
		add_piece(d, at, i, out, n);
	return n ? i : at + 1;
}

static int four_hex(const struct decoder *d, size_t at)
{
	int v = 0;

	if (at + 4 > d->len)
		return -1;
	for (size_t i = 0; i < 4; i++) {
		int h = hex_value(d->t[at + i]);

		if (h < 0)
			return -1;
		v = v << 4 | h;
	}
	return v;
}

/* \u0041, \\u0041 and "U+0041 ", in a row. */
static size_t take_unicode(struct decoder *d, size_t at)
{
	char out[256];
	size_t n = 0, i = at;

	while (i + 1 < d->len && n < sizeof(out)) {
		size_t mark = i;
		bool plus = d->t[i] == 'U' && d->t[i + 1] == '+';
		int c;

		if (!plus) {
			while (mark < d->len && mark < i + 2 && d->t[mark] == '\\')
				mark++;
			if (mark == i || mark >= d->len || (d->t[mark] | 32) != 'u')
				break;
		}
		c = four_hex(d, mark + (plus ? 2 : 1));
		if (c < 0 || !printable(c))
			break;
		out[n++] = (char)c;
		i = mark + (plus ? 6 : 5);
		if (plus && i < d->len && isspace(d->t[i]))
			i++;
	}
	if (n)
		add_piece(d, at, i, out, n);
	return n ? i : at + 1;
}

/* ---- search ----------------------------------------------------------------------- */

/* For each of n blocks of 64 bytes: bit i of word: byte i is a word character; of first:
 * base64 of something printable may begin with it; of mark: an escape may begin there. */
struct bits {
	uint64_t word, first, mark;
};

typedef void classify_fn(const unsigned char *t, size_t n, struct bits *ret);

/* % before two hex digits, \ before u or \. What a block's end cuts off counts as such.
 */
static inline uint64_t marks(uint64_t percent, uint64_t back, uint64_t hex, uint64_t u)
{
	const uint64_t last = UINT64_C(1) << 63;

	return (percent & (hex >> 1 | last) & (hex >> 2 | last | last >> 1)) |
	       (back & ((u | back) >> 1 | last));
}

static void classify_any(const unsigned char *t, size_t n, struct bits *ret)
{
	for (; n; n--, t += 64, ret++) {
		uint64_t percent = 0, back = 0, hex = 0, u = 0;

		uint64_t first = 0, second = 0;

		ret->word = 0;
		for (int i = 0; i < 64; i++) {
			ret->word |= (uint64_t)word_byte(t[i]) << i;
			first |= (uint64_t)may_start(t[i]) << i;
			second |= (uint64_t)may_follow(t[i]) << i;
			percent |= (uint64_t)(t[i] == '%') << i;
			back |= (uint64_t)(t[i] == '\\') << i;
			hex |= (uint64_t)(hex_value(t[i]) >= 0) << i;
			u |= (uint64_t)((t[i] | 32) == 'u') << i;
		}
		ret->first = first & (second >> 1 | UINT64_C(1) << 63);
		ret->mark = marks(percent, back, hex, u);
	}
}

#ifdef __x86_64__
#define BITS(x) ((uint64_t)(uint32_t)_mm256_movemask_epi8(x))
#define EQ(v, c) _mm256_cmpeq_epi8(v, _mm256_set1_epi8(c))

/*
 * A table by the high half of a byte and one by the low half; the byte is in the class if
 * both have a bit in common. Bits: 1 "+-/", 2 digits, 4 A-O and a-o, 8 P-Z and _, 16 p-z,
 * 32 A-F and a-f.
 */
__attribute__((target("avx2"))) static void classify_avx2(const unsigned char *t,
							  size_t n, struct bits *ret)
{
	const __m256i low = _mm256_broadcastsi128_si256(_mm_setr_epi8(
		26, 62, 62, 62, 62, 62, 62, 30, 30, 30, 28, 5, 4, 5, 4, 13));
	const __m256i high = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 0, 1, 2, 36, 8, 36, 16, 0, 0, 0, 0, 0, 0, 0, 0));
	/* The same for may_start(): bits 1 C D I-O, 2 P-Z, 4 a-f; */
	const __m256i low1 = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(2, 6, 6, 7, 7, 6, 6, 2, 2, 3, 3, 1, 1, 1, 1, 1));
	const __m256i high1 = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 0, 0, 0, 1, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0));
	/* for may_follow(): bits 1 A C-H Q S-X, 2 g i-n, 4 w y z, 8 0-3. */
	const __m256i low2 = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(8, 9, 8, 9, 1, 1, 1, 7, 1, 6, 6, 2, 2, 2, 2, 0));
	const __m256i high2 = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 0, 0, 8, 1, 1, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0));
	const __m256i half = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();

	for (; n; n--, t += 64, ret++) {
		uint64_t percent = 0, back = 0, no_hex = 0, no_word = 0, no_first = 0,
			 no_second = 0, u = 0;

		for (int i = 0; i < 64; i += 32) {
			__m256i v = _mm256_loadu_si256(
				(const __m256i *)(const void *)(t + i));
			__m256i l = _mm256_and_si256(v, half);
			__m256i h = _mm256_and_si256(_mm256_srli_epi16(v, 4), half);
			__m256i c = _mm256_and_si256(_mm256_shuffle_epi8(low, l),
						     _mm256_shuffle_epi8(high, h));
			__m256i f = _mm256_and_si256(_mm256_shuffle_epi8(low1, l),
						     _mm256_shuffle_epi8(high1, h));
			__m256i g = _mm256_and_si256(_mm256_shuffle_epi8(low2, l),
						     _mm256_shuffle_epi8(high2, h));

			no_second |= BITS(_mm256_cmpeq_epi8(g, zero)) << i;
			no_word |= BITS(_mm256_cmpeq_epi8(c, zero)) << i;
			no_first |= BITS(_mm256_cmpeq_epi8(f, zero)) << i;
			no_hex |= BITS(EQ(_mm256_and_si256(c, _mm256_set1_epi8(34)), 0))
				  << i;
			percent |= BITS(EQ(v, '%')) << i;
			back |= BITS(EQ(v, '\\')) << i;
			u |= BITS(EQ(_mm256_or_si256(v, _mm256_set1_epi8(32)), 'u')) << i;
		}
		ret->word = ~no_word;
		ret->first = ~no_first & (~no_second >> 1 | UINT64_C(1) << 63);
		ret->mark = marks(percent, back, ~no_hex, u);
	}
}
#endif

static classify_fn *pick_classify(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		return classify_avx2;
#endif
	return classify_any;
}

struct progress {
	size_t done;   /* everything before it was looked at */
	unsigned ones; /* word characters that end the last block */
	bool first;    /* base64 of something printable may begin where these do */
};

/*
 * Bits where a run begins that is worth a look: of RUN_MIN word characters if base64 can
 * begin so, of twice as many for the sake of hex. A run that goes on from the block in
 * front is looked at from here.
 */
static inline uint64_t run_starts(struct bits b, const struct progress *p)
{
	uint64_t r = b.word, first;
	unsigned lead = ~b.word ? (unsigned)__builtin_ctzll(~b.word) : 64;

	r &= r >> 1;
	r &= r >> 2;
	r &= r >> 4;
	r &= r >> 8;
	first = r & ~(r << 1) & (b.first | r >> 16);
	if (p->ones && lead) {
		first &= ~UINT64_C(1);
		first |= (p->ones + lead >= RUN_MIN && p->first) ||
			 p->ones + lead >= HEX_MIN;
	}
	return first;
}

static inline void carry(struct progress *p, struct bits b)
{
	unsigned ones = ~b.word ? (unsigned)__builtin_clzll(~b.word) : 64;

	if (ones < 64)
		p->first = ones && (b.first >> (64 - ones) & 1);
	else if (!p->ones)
		p->first = b.first & 1;
	p->ones = ones;
}

/* U+0041 has no byte that is rare; its plus sign is the best there is. */
static void find_code_points(struct decoder *d)
{
	const unsigned char *p = d->t, *end = d->t + d->len;

	while (p < end && (p = memchr(p, '+', (size_t)(end - p)))) {
		size_t at = (size_t)(p - d->t);

		if (at && p[-1] == 'U')
			at = take_unicode(d, at - 1);
		p = d->t + (at > (size_t)(p - d->t) ? at : (size_t)(p - d->t) + 1);
	}
}

/* The run that bit `bit` of the block at `at` belongs to; returns where it ends. */
static size_t take_run_at(struct decoder *d, size_t at, unsigned bit, uint64_t word)
{
	uint64_t rest = ~(word >> bit);
	size_t start = at + bit,
	       end = start + (rest ? (unsigned)__builtin_ctzll(rest) : 64);

	while (bit == 0 && start > 0 && word_byte(d->t[start - 1]))
		start--;
	if (end >= at + 64)
		for (end = at + 64; end < d->len && word_byte(d->t[end]); end++)
			;
	take_run(d, start, end);
	return end;
}

static inline void look_at(struct decoder *d, struct progress *p, size_t at,
			   struct bits b)
{
	uint64_t go = b.mark | run_starts(b, p);

	carry(p, b);
	for (; go; go &= go - 1) {
		unsigned bit = (unsigned)__builtin_ctzll(go);

		if (at + bit < p->done)
			continue;
		if (!(b.mark >> bit & 1))
			p->done = take_run_at(d, at, bit, b.word);
		else if (d->t[at + bit] == '%')
			p->done = take_percent(d, at + bit);
		else
			p->done = take_unicode(d, at + bit);
	}
}

static void find_pieces(struct decoder *d)
{
	classify_fn *classify = pick_classify();
	struct progress p = {0};
	unsigned char last[64] = {0};
	struct bits bits[BULK];
	size_t at = 0;

	while (d->len - at >= 64 && !d->failed) {
		size_t n = min_size((d->len - at) / 64, BULK);

		classify(d->t + at, n, bits);
		for (size_t i = 0; i < n; i++, at += 64)
			look_at(d, &p, at, bits[i]);
	}
	if (d->failed)
		return;
	memcpy(last, d->t + at, d->len - at);
	classify(last, 1, bits);
	look_at(d, &p, at, bits[0]);
}

/* ---- the view --------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int put(struct buf *out, struct decoded *ret, const void *text, size_t len,
	       size_t from, bool decoded)
{
	if (!len)
		return 0;
	ret->seg[ret->view.n_segs++] = (struct seg){out->len, len, from, decoded};
	return buf_append(out, text, len);
}

static int build(struct decoded *ret, struct decoder *d, struct buf *out)
{
	size_t at = 0; /* of the parent: copied up to here */
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->n; i++) {
		const struct piece *p = &d->piece[i];
		size_t cut = i ? at + min_size(CONTEXT, p->start - at) : at;
		size_t again = p->start > CONTEXT ? p->start - CONTEXT : 0;

		if (again > cut) {
			r = put(out, ret, d->t + at, cut - at, at, false);
			if (r == 0)
				r = put(out, ret, "\n", 1, cut, false);
			at = again;
		}
		if (r == 0)
			r = put(out, ret, d->t + at, p->start - at, at, false);
		if (r == 0)
			r = put(out, ret, d->text.data + p->at, p->len, p->start, true);
		at = p->end;
	}
	return r < 0 ? r
		     : put(out, ret, d->t + at, min_size(CONTEXT, d->len - at), at,
			   false);
}

/* The two searches overlap: what starts inside the piece before is dropped. */
static void sort_pieces(struct decoder *d)
{
	size_t n = 0;

	qsort(d->piece, d->n, sizeof(*d->piece), by_start);
	for (size_t i = 0; i < d->n; i++)
		if (!n || d->piece[i].start >= d->piece[n - 1].end)
			d->piece[n++] = d->piece[i];
	d->n = n;
}

int decode_view(struct decoded *ret, const struct view *v)
{
	struct decoder d = {.t = (const unsigned char *)v->text, .len = v->len};
	cleanup_buf struct buf out = BUF_INIT(2 * v->len + 4096);
	int r = 0;

	buf_init(&d.text, v->len + 1);
	*ret = (struct decoded){.view = {.parent = v}};
	find_pieces(&d);
	find_code_points(&d);
	if (d.failed)
		r = -ENOMEM;
	if (r == 0 && d.n) {
		sort_pieces(&d);
		ret->seg = calloc(4 * d.n + 1, sizeof(*ret->seg));
		r = ret->seg ? build(ret, &d, &out) : -ENOMEM;
	}
	free(d.piece);
	buf_clear(&d.text);
	if (r < 0 || !ret->view.n_segs) {
		decoded_clear(ret);
		return r;
	}
	ret->view.len = out.len;
	ret->text = buf_steal(&out);
	ret->view.text = ret->text;
	ret->view.seg = ret->seg;
	return 1;
}

void decoded_clear(struct decoded *d)
{
	free(d->text);
	free(d->seg);
	*d = (struct decoded){0};
}
