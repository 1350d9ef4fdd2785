/* tokenizer.h: text to the numbers of tokens and back, by other people's vocabularies.
 *
 * A companion of miras.h in the same style, of the C library alone. In one C file:
 *
 *     #define MIRAS_IMPLEMENTATION
 *     #include "miras.h"
 *     #define MIRAS_TOKENIZER_IMPLEMENTATION
 *     #include "tokenizer.h"
 *
 * and elsewhere the two without the macros.
 *
 *     char why[256];
 *     miras_tokenizer *t = miras_tokenizer_open("folder", 0, NULL, why, sizeof why);
 *     int32_t ids[1000];
 *     size_t count = 1000;
 *     if (!t || miras_tokenizer_encode(t, text, bytes, 0, ids, &count, why, sizeof why)) puts(why);
 *
 * What is read: tokenizer.json of Hugging Face with a model BPE, byte-level or of sentencepiece; a
 * vocabulary of RWKV, lines of id, Python literal and length; and arrays, as GGUF has them. The
 * numbers are those of the tokenizers library (0.23), of sentencepiece for scores, and of RWKV's
 * own program. Of a tokenizer.json:
 *
 *   normalizer      none, NFC, Prepend, Replace of a string, and sequences of these
 *   pre_tokenizer   none, ByteLevel, Digits, Metaspace, Split by an expression of tok__splits
 *                   (those of GPT-2, of Llama 3, which is cl100k's and DBRX's, of Qwen2 and of
 *                   Qwen3.5), and sequences of these
 *   added_tokens    with all of their flags, wherever they stand in the text
 *   model           BPE: merges in both spellings, ignore_merges, byte_fallback, unk_token and
 *                   fuse_unk
 *   post_processor  none, ByteLevel, TemplateProcessing, and sequences of these
 *   decoder         ByteLevel, Metaspace, or a sequence of Replace, ByteFallback, Fuse and Strip
 *
 * Anything else would give other numbers, and is refused with a sentence that names it. truncation
 * and padding are the caller's. Characters fall into the classes that the library's parts give
 * them, by tables of this file (tests/unicode.py), so that a program needs no package: letters,
 * marks and digits of Unicode 16, NFC of Unicode 9.
 *
 * Time is linear in the text, or n log n where a piece of it is long, whatever it holds; a text has
 * at most 2^30 bytes. Two bounds keep this so by any vocabulary: tokens that are looked for at each
 * place of a text have at most 1,000 bytes, and normalizers that may make it more than 64 times as
 * long are refused. A tokenizer may serve many threads when its allocator does. The licence is that
 * of miras.h. */
#ifndef MIRAS_TOKENIZER_H
#define MIRAS_TOKENIZER_H

#ifndef MIRAS_H
  #error "include miras.h before tokenizer.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct miras_tokenizer miras_tokenizer;

/* Bytes of a text; they need not end in 0. */
typedef struct miras_tokenizer_text {
  const char *at;
  size_t size;
} miras_tokenizer_text;

/* A vocabulary as GGUF has it, in keys that begin with tokenizer.ggml. Nothing of it is kept. */
typedef struct miras_tokenizer_arrays {
  const char *model;                   /* "gpt2", "llama" or "rwkv"                               */
  const char *pre;                     /* of gpt2: how it splits, one of tok__pres                */
  const miras_tokenizer_text *tokens;  /* [count]                                                 */
  const int32_t *token_type;           /* [count], or NULL: all are normal                        */
  const float *scores;                 /* [count], of llama                                       */
  size_t count;
  const miras_tokenizer_text *merges;  /* [merge_count], "a b", of gpt2                           */
  size_t merge_count;
  int32_t bos, eos, unknown;           /* their ids; -1: none                                     */
  int add_bos, add_eos;                /* 1: where MIRAS_TOKENIZER_SPECIAL is asked for; add_bos -1:
                                          the file does not say. As llama.cpp has it, llama then
                                          adds bos, and gpt2 that splits as Llama 3              */
  int no_space_prefix;                 /* 1: add_space_prefix is false                            */
} miras_tokenizer_arrays;

enum {
  MIRAS_TOKENIZER_SPECIAL = 1,   /* encode: the tokens that begin and end a text are added; decode:
                                    special tokens are left out                                   */
  MIRAS_TOKENIZER_PLAIN = 2      /* encode: special tokens that the text spells are text          */
};

/* Open the vocabulary at `path`: a file, or a folder with tokenizer.json in it, and then
 * tokenizer_config.json beside it says which token ends a text. limit: bytes that the vocabulary,
 * and any call of it, may take; 0: any. allocator NULL: malloc. NULL on failure, and why (may be
 * NULL) receives a sentence that names what is wrong, of at most 511 characters. */
MIRAS_API miras_tokenizer *miras_tokenizer_open(const char *path, uint64_t limit,
                                                const miras_allocator *allocator, char *why,
                                                size_t why_size);
/* The same of a file's bytes. */
MIRAS_API miras_tokenizer *miras_tokenizer_open_text(const char *bytes, size_t count,
                                                     uint64_t limit,
                                                     const miras_allocator *allocator, char *why,
                                                     size_t why_size);
MIRAS_API miras_tokenizer *miras_tokenizer_open_arrays(const miras_tokenizer_arrays *arrays,
                                                       uint64_t limit,
                                                       const miras_allocator *allocator,
                                                       char *why, size_t why_size);
/* NULL is nothing. */
MIRAS_API void miras_tokenizer_close(miras_tokenizer *t);

/* The tokens of a text. *count is the room of ids, and then how many tokens there are; when these
 * are more, ids has the first of them, and nothing is lost by calling again. Bytes that are no
 * UTF-8 become U+FFFD, one for each longest beginning of a character, as decoding by Python and
 * Rust makes them; RWKV's vocabulary takes them as they are. MIRAS_ERR_ALLOC, MIRAS_ERR_SIZE (of
 * limit, or of a text of more than 2^30 bytes), MIRAS_ERR_ARGUMENT for a byte that has no token in
 * RWKV's vocabulary, each with a sentence in why. What no token stands for is left out elsewhere,
 * as the library has it, if there is no unk_token. */
MIRAS_API miras_result miras_tokenizer_encode(const miras_tokenizer *t, const char *text,
                                              size_t bytes, int flags, int32_t *ids,
                                              size_t *count, char *why, size_t why_size);
/* The bytes of tokens, at most `room` of them into out; how many there are, or SIZE_MAX if an id is
 * negative or not below miras_tokenizer_size. A token may be a part of a character: what a call
 * gives need not be UTF-8. *place is 0 where a text begins, and goes on from call to call: a blank
 * that encoding puts before a text is left out there, and the calls' bytes one after the other are
 * those of one call. It stays as it is by a call whose bytes had no room. NULL: in the midst of a
 * text. */
MIRAS_API size_t miras_tokenizer_decode(const miras_tokenizer *t, const int32_t *ids, size_t count,
                                        int flags, int *place, char *out, size_t room);
/* Ids are below this; some may have no token, and decode to nothing. */
MIRAS_API int32_t miras_tokenizer_size(const miras_tokenizer *t);
/* The token that is spelt so in the file, or -1. */
MIRAS_API int32_t miras_tokenizer_find(const miras_tokenizer *t, const char *text, size_t bytes);
/* The token that ends a text, or -1 where nothing says. */
MIRAS_API int32_t miras_tokenizer_end(const miras_tokenizer *t);

#ifdef __cplusplus
}
#endif
#endif /* MIRAS_TOKENIZER_H */

#if defined(MIRAS_TOKENIZER_IMPLEMENTATION) && !defined(TOK__IMPLEMENTED)
#define TOK__IMPLEMENTED

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef MIRAS_MALLOC
  #define MIRAS_MALLOC(bytes) malloc(bytes)
  #define MIRAS_FREE(pointer) free(pointer)
#endif

/* tables: tests/unicode.py writes them */
static const char *const tok__classes[] = {
  "L%R$T'1]&V%]$U)D$0+U)T%1T)1L%,]$6+,;.,+>+^(+^*+UV&D$E&T&M$]$,+,L'H@M$+43E$+,T$,+<+,+E(+^7+^F$+a"
  "$UM$+U,3,T$M-D%P.+/+7+7+/D%^)D$E$L*a%L$^-P(V%D$4/^;+,a$3X$47+H$4V%<3,D',/U*a)3M9a%,T&V%M+P%4D$,"
  "3/3U(H$,P%,@,P$T'M)@D$^%L$E)+U$D%P%U-H)+P+U0@,X',a$U%73V%+E'@+E%343U(+^$+,;E$3/,a$373@,D%/D$4+<"
  "73V%43W$3,+/3@+U$D$43U(+^$+4+4+43/+P$D$73@;/]$E$+,]$V%7</]%@+M%+<+U(+^$+4+M$3/,H%+@+@3,]&473V%L"
  "%,X$+@+E%343U(+^$+4+M$3/,a$373@]$@D$4+<73V%+,W$T%/,+U$;<+E$;4+,+4;4;<;E&D$P$;@+H$3,T$/T&V%>L&P$"
  "E%+<+^(+E'3/,a$+@+H$]$7+<3,3473V%D%`$+,@+E%+<+^(+U%+M$3/,a$+@+H$]$7T$4+473V%+4/D&H$M%+<+M-7,a$+"
  "@+H$,L$</`$<73V%O%+U$+@+U';E)+M%+,3^$;/D$X$+/+H%T$V%37L&E//4a$L$^$H%+V%],4+,+M$+E)+,+U%/4P%,3M$"
  "+,+a$+V%3E$D+,](7T$V%W%+/+/+/D$7E%+E,D$H(+7M$a%+H,L%/L1^-H(,V%T$U$H$E$@,@4a$<H$M&H&,/V%H$3U,+,L"
  "$,3^-+MW%+E$3^$+,+E$3M-+E$3M++E$3^$+,+E$3^&+M1+E$3^33@L%G(;E'D'U83U$;E`'3M'1U)L$^5;=E%]$U'H$L%^"
  "'@]%U'7D&M&+<+7D&E0H+;,D$,/3V%T$W%L'@+/V%T$M9]$M$7U+/,L$U4T%^*+H&D$H&T%V%U*3M$]%E.D$U)T$V%.L,^("
  "P$D$M0X%+P*3/V%T$V%L&,D%a*L/P$^.P'E%;V%L'P%D&@U*P&4V%E.X&D&E,H(D%V%;<V%E,3^%L$^-3<D'@+P(E$/U$/4"
  "@,L$ET$H3UI%3U$3U,3U$3E%+,+,+,+^*3M0+^$+,;<+^$;E$3U$D$M&L$<+^$;c%+8T)9L$1]&8]'0T%1D'.,3W$L$,W%T"
  "$M&]/P+L',D$,3U%+,;M$T$,+,+,+E$+^%3E$L$M$D$,+G'_+4F$.TY(G2T)I0W(Tb'W*D`+M^$T$E$@4L%.3U,+,L$,3E1"
  "]$,]&/^(L%^$+^$+^$+^$+^$+^$+^$+^$+H+].,DX&1D$4-L)N%X$+M$3=4D$U8373<+U9+E$L$^-+U:;G$T%E+D/E'D+W%"
  "T*G%+`&D+W%],`&DT%ETW$D3MGQ(]3U.3MG%;E'V%4D(^.H$+X%+^*7U4V%7L,M%3^<3^334+,+E%L(E'/</E$/^(P$D$/;"
  "W$T%E0D&7U/X'T%V%T$X'U$;,+4/V%E*H%3^(P&D&M*;H$^.X&T&,V%T$M$/U%V%M$+M-X&L%</E%73V%T$^(;,@U//,@47"
  "M$7,/,D)<3^%P$3<7T%U$3U$3U$L%^$+^$+^-+U&T$^@H%+73V%T$EM[%D&^(D$M/DEF%U`%3U=T,^$D&M$L$,/U%+M&+M$"
  "+,+4+4+E>L+^_%T'E33U0D-E&D$H'D'H';8D)AD+M$+^E$]'V%]$U)D$0+U)]%M9;U$3U$3U$3<]+E&+U)+^'+4+^&3U&T+"
  "^BD&O.D&N0G$L'6L@/TD$M*;M/]&/`)D$E+G$L%E(-E%-L$U,P$L$U*3E,D$E%+N$T-UK$3V%T$E,D$E,D$E-D%E0D&^%+^"
  "&+^$+4+^%+^&+^$+4;E0D&^Q%L%U(T%E%D)U$+U-+M%L4U$3,+E.+4;,3^(3G%^(3`$^*D%O%D/^'+4L$O$U(W$D$U)T4E1"
  "D$64G'3W.,@+7L$H$E$+<+M*3@D$/O%](M*6+M*>D+E%+E*7D$O$D'U0T%U(3G%^'L$G%U'](`$D7M5]0^/L&^/]$W$E,H$"
  "D%V%T$V%E*;P$+^(TZ$`*+U-+7;4D'<]0H$M*W%,D%U(a%G$])U'H$T-M(`$D(^(L%@M0a&]%G(V%/47,L%H$M.a%]$/L&M"
  ")]$V%T$@E,X&+V%D$,7,D%^+/3,L%@E/X&E$D$H$+7V%,+,D$G(]%U'+M)H&T$/4/T2^$+,+E$+^&+U%]$^.H&L$V%T$H$+"
  "E%343U(+^$+4+M$+7,a$373@3,T$/L$M$73a$;P$]%U%+,3,+U,+,P%+/3/+H$+P$,/,L&7L*M0X'E$L$V%D$/<T*E/H(4+"
  ",D%V%TM$^.a$3P%](E$7T+E/P';,]%V%T,^-P&,]$V%T$F(D*^)3a&D$V%6D$^$LR$E.a&L<E3V%O%D&E%3,3E%+4+E)X$+"
  "73H$,/,7D&V%T4E%3^,a$3a$,+,/]),X%E-a$,H$D%/D%,a%U.H';,T'M5]U$M+]&V%T$M%+M,H%+H%,]&V%`'L$U*3X(+X"
  "&L5^$+4+U,X$;/+7+a$,/D%V%T$U$+4+E+P$+7+P$,]$V%T0[%Tb$^'H$L%7,/M&+U+a$;P$L&V%/L8,]&O(]-UJ*T<_>L'"
  "EU$DW7M;]&EP+D'/U$a&T%^JCL$^U'LRY$U*X'V%TU0MR']$^*+V%T$^6+V%T$U*3P$]%E/a$L%E$D&V%+`$+M(L$^'DP&M"
  ".;V%TU$E3`(L=^5D$/,a0]$H$M&D34+,/]%73CL%EcS$D%UY,L-U%]^I%E$+^$+4+^L%]&,L*<3,T&E$D%EG&DE5^=L$M&;"
  "M%]$U%;7LXD$V%TE'X.3a(TK'P$;X$D%H%3a$T*H$DI$@]BG(D&G(D>O)]E$M8+^4+43,343E$+E&+,+^$+M3+E$3E%+^$+"
  "E*+E$+M$+,;^$+EY%3M)+M)+^*+M)+^*+M)+^*+M)+^*+M)+E%3V/DD'a0D$X/D%/T&/T(P$+a&DX+^*T$U$LY$a$+P'3a$"
  "+7+P$L$U2L+/D@M.;a$^$3V%D$,LT%U*/L'E.H$V%TY&E*H$V%TY$U*7,V%L^&^$+E$+4+^&+MU$3O%a$L-E4a$,D$V%]I)"
  "`1+>+G$D6O.+`&TT$E$+^)+4+,3,+U%+E$+,+,T$,D$,+,+,+<+4+,3,+,+,+,+,+4+,3E$+^$+E$+E$+,+U%+M'L$<+M$+"
  "M'DU'O&]+Y)T$Y)T$Y)T^7V%TE+E]Q-D+URD$T$U[$3UDQ$T&MP_$]&U`'TL6UK'T].^VJ$L$E]D$", NULL};

static const char *const tok__orders[] = {
  "DDD)JS(L2aJ$L2]1aR$N9aJ$N9ac%EL$aJ$JK%T2J2aBJCa9D+JCaJ$J2L2a9J2M2N:M2N:M2JS&D]H%JS$DLF%a1JK$a1J"
  "Cc1a1J[$aZ$J:a1J:c1H2J2N+O+P+Q+R+S+T+U+V+W3X+Y+Z+D+[+D+]+^+D+J2a1D+V+DD5JK%c+d+D,DD/`+a+b+c+d+D"
  ",E,F,J:a9JS$a1J:a1DD'G,DL<Jd$D3JK$a1J2D3J:D+a1J:a1D]+H,DT*J2a1J:a1J:aBJ2a9J2a1JCa1J2a1J2a1J2a1J"
  ":DDL$Jd$a1J2DT+JK$D+JS%D+JCD+JS$D]-aBDDBJ[&D+a1J:a1J:a1JCaB`+a+b+JCa1J:a9JS$DD2K+DD'M+D;J2a1J:D"
  "]<K+DD'M+DT>K+DD'M+DT>K+DD'M+DT>K+DD'M+D]CM+D]CM+D]$X-`-DL<K+DD'M+D]CM+DDCM+DL>K6M+DL&OG$DD>Z6D"
  "T&_G$DD6a9D])a1D+a1D+]1D]0E/F/D+H/DL$FH$D3F/D+J:M+D+J:DT2a1DD@K+D+M3DT7a1D]W(JCDDQ*M+D]*M+DLK$M"
  "+DT%J2D]V$H2D]G$c1J2a1D]Z$J2a1D]4M+DD(JK%D3a1DD/JS$aZ$J:a1DTAK+D]&M+DT,J2a1Jd$DT0M3DT1K+D]%M3D]"
  "3K+DDJ$JCD+E+aR$J:aJ$J2D+E]$DD$a1DT$J2D;J:DTU$J:a1Jd$a1J:N2Z1a1N1JS,DL$J2M2a1J2a1DDX(J:E3JK$E;J"
  ":DD$J2D;E3J2a1J2E3aJ$J2DTd:JCDLG$M+DD;JK+DTN'_1H2L2c1D:DL=L3DDYO*J2DD$J[%DD+J:DD7J:DDI%M+DLS$M+"
  "D])J['DL1aBDL,M+D]:K+DD&M+D]`$J2D+J:a1D3J:DL$J:D+J2DD0M+DTb$M+DDPc'_+DLD)Jd$ac$J:DLW*a1DT]$a1DL"
  "I$JS$DTH0a1D+J2DD-J2E+a1DD$M+DLM$J2a1D][-M+DD1M+DL1M+K+DL4JCDD/M3DT2K+DD6M+DL%K+DT=M+K+DTP$K+M+"
  "DL7K+DD'M+DD)Jd$D;JS$DLW$M+D;K+D]BM+K+D]c$M+K+DTCM+DTAM+K+D]@M+D]H-M+DDPb'EL$D]1Jd$D]^F(E+DTUM$"
  "]9E;D;F2]R$DD%aJ%D3JS$a9DT*JK$DDI$JCD]R>Jd$D+JS'D3Jd$D+J:D+JS$DLM4ac$DL>J[$K+", NULL};

static const char *const tok__parts[] = {
  "E/F'DT$&#%&#%&#%&#-&#'('_$&'Q%&#%&#%&#/&+2&#%&#%&#/(-,&%(&#%&#%&#%&#-*/2&#%&#%&#/&+0*3$&#%&#%&#"
  "%&#-&#'('_$&'Q%&#%&#%&#/&+2&#%&#%&#/(-,&%(&#%&#%&#%&#-*/2&#%&#%&#/&+0(#1&S&*&D%#&d$'&D%#&d$H%&D"
  "%#&`$Q%&D%#&d$%&D%#&d$-&D%#&d$-&D%#&b$#&D%#*b$2&D%#&d$'&D%#&d$%&D%#&d$F%&D%#&d$[$&D%#&`$6&D%#&d"
  "$+&D%#&d$%&D%#&d$D%&D%#&b$M%&D%#*b$%&D%#&d$%&D%#&d$'&D%#&d$H%&D%#&d$E%,%,&D%#&b$N%&D%#(b$O%&D%#"
  "&d$P%&D%#&d$Y$&D%#.`$8&D%#&d$P%&D%#&d$Y$&D%#,b$2&D%#&d$'&D%#&d$-&D%#*^$6&D%#&d$P%&D%#&d$Y$&D%#&"
  "b$8&D%#&d$%&D%#&d$N%&D%#&d$Y$&D%#&b$Z$&D%#&d$Y$&D%#*b$4&D%#&d$%&D%#&d$'&D%#&d$+&D%#&d$%&D%#&d$_"
  "$&D%#&`$O%&D%#&`$#&D%#&d$/&%0&D%#&d$/&D%#&d$-&D%#I%Y%B&D%#AW$#&D%#`$K&A&D%#&S$#&D%#&W$#&D%#&W$#"
  "&D%#&R)2&D%#&d$(&D%#&d$9&D%#&d$:&D%#(S&+&D%#&H7#&%#&E9#&D%#*b,3&D%#&[$#&D%#&[$]$&D%#&Z:K%&%#&K&"
  "3&Z0#&SF$#,I%8&D%#*U$$&D%#&R(%&D%#&b$#&D%#&>#&D%#&Q.@&D%#&d$'&D%#&[$&&D%#&d$'&D%#&[$&&D%#&d$'&D"
  "%#&W$&&D%#&d$'&D%#&^$&&D%#&d$'&D%#&^$&&D%#&d$'&D%#&G%N$&D%#&b$#&D%#*[%W$&D%#2Q%,&D%#&[$D%&D%#&F"
  "*I%&D%#&E%#&D%#&O-)&D%#&c>(&%#&OA#&D%#_3RL$KT$%%#'H$#%8FT$D&b'ET$7`K$#2_)FT$&VR$#%WQ$ET$&aQ$FT$"
  "&'#&'#(/#(/#&+#&F%#Y$E&1&;#&;0&+#&'#&'#&H$#Y$G$1&;#&.0&/#&+#.5#&#1^%J'2&#3(&0,<1.L$0&&$&9/:8#E%"
  "D%#S$(.&#3(&0,J%1.[$0&&$&9/U$F&5&%#Y'b(4&D%#AO%#&D%#&d$'&D%#*Y$&&D%#*J-'&%#&I/#&D%#&b$#&D%#*b$*"
  "&D%#&d$+&D%#&W$#&D%#*X-#&%#&[.#&D%#&W%*&D%#&d$+&D%#&d$)&D%#&[$(&D%#*[$#&D%#W5]AZX$&#%&F%#&E%%&J"
  "%$Y,Z+#(K$#G$F$#QI$PI$TR$43#*)#L%`$#%%#%%#%-#%-#%%#%5#%+#^)T,H+&#V$D$O%Y$%%#'=#L(J+D+)/#J%G%#%%"
  "#%-#)B#Y1]4X4*#S$&#V$D$O%Y$%%#S&D*Z,Q&L&U$&%#&$V$^*D+c*U*V*c*21#&#%(#K$&+J$d*]*V)&%#&$V$b+J,J*("
  "#-&),&(N$N9V9TA77#--#--#--#=Y$&7F&I''#'%F';'%#5G'#H$F%R&77#--#--#--#=Y$&`)N,V*ER(DR(RT(('#('#('"
  "#('#,+#W%V%#('#*'#&%#()#`O$ET0dD/&D%#&b$`$&D%#&d$]$&D%#&d$@&D%#&N)d%&D%#&I-/&D%#&d$]$&D%#&d$@&D"
  "%#&d$6&D%#&d$/&D%#&a-^%&%#&$%&%#&`/]%&D%#&d$)&D%#&J@W%&%#&IB%&D%#&b$(&D%#&b$)&D%#&d$]$&D%#&d$Y$"
  "&D%#&d$c$&D%#&d$1&D%#&b$'&D%#&P)b%&D%#&K-#&D%#&d$H%&D%#&d$@&D%#&b$>&D%#&Xa1b$&%#&Yc1_%&D%#&d$*&"
  "D%#&b$[%&D%#&d$/&D%#&d$]$&D%#&b$[$&D%#&d$]$&D%#&d$@&D%#&d$*&D%#&R)[%&D%#&d$1&D%#&R(2&%#&$%&%#&^"
  "2#&D%#&d$/&D%#&`$#&D%#&d$]$&D%#&Tc1b$&%#&UD2_%&D%#&b$W%&D%#&d$]$&D%#&R1[$&%#&-#&%#&FT1#&%#&bD2#"
  "&D%#&d$]$&D%#&d$@&D%#&d$*&D%#&b$4&D%#&d$;&D%#&d$(&D%#&J2[%&%#&%1&%#&M4,&D%#&d$D%&D%#&b$I%&D%#&d"
  "$%&D%#&d$1&D%#&d$$&D%#&d$]$&D%#&b$[$&D%#&d$%&D%#&b$$&D%#&b$,&D%#&d$F%&D%#&d$@&D%#&G$#&;U%&)'&'#"
  "(P3(.`6]$&D%#&d$W$&D%#&F)2&D%#&d$$&D%#&d$5&D%#&d$.&D%#&a`1$&%#&b^1$&%#&$$&%#&$5&%#&$.&%#&_^1)&%"
  "#&[I2_$&D%#&d$W$&D%#&d$.&D%#&N)&&D%#&d$$&D%#&d$5&D%#&d$.&D%#&aa1$&%#&dJ21&D%#&d$X$&D%#&W$#&D%#&"
  "d$W$&D%#&N)2&D%#&d$$&D%#&d$5&D%#&d$.&D%#&Tb1$&%#&^V1$&%#&$$&%#&$5&%#&$.&%#&$D%&%#&[7#&D%#&d$W$&"
  "D%#&X62&%#&$$&%#&$5&%#&$.&%#&$D%&%#&Q8I%&D%#&d$J%&D%#&d$W$&D%#&d$.&D%#2TW$D$&#%&cX0K$&%#&$%&%#&"
  "$F'&%#&dZ0b%&#%&R[0K$&%#&$%&%#&$F'&%#&KY0b%&#%&ZY0K$&%#&$%&%#*[[0H$&#%&J]0K$&%#&$%&%#*GZ0H$&#%&"
  "VZ0K$&%#&$%&%#&$F'&%#&W]0b%&#%&F^0K$&%#&$%&%#&$F'&%#&dZ0b%&#%&R[0K$&%#&$%&%#&$F'&%#&S^0b%&#%&c^"
  "0K$&%#&$%&%#&$F'&%#&W[0b%&#%&F]0K$&%#&$%&%#*G_0H$&#%&V_0K$&%#&$%&%#*K]0H$&#%&Z]0K$&%#&$%&%#&$F'"
  "&%#([_0`%(L`0K$(#%(#F'&d]0b%&#%&R^0K$&%#&$%&%#&$F'&%#&S`0b%&#%&c`0K$&%#&$%&%#&$F'&%#&S`0G'%,dS$"
  "&5DT$%2dS$&7DT$%4dS$&9DT$%6dS$&D$DT$%=dS$&0DT$%3dS$&*DT$%-dS$*HW0NX$&%#&%#&%#&%#&%#&%#&%#&%#&%#"
  "&%#&%#&%#&%#&%#&%#&F$#&%#&%#&%#&%#&%#&%#&%#&%#&%#&%#&%#&%#&%#&%#&%#&F&#&%#&%#&%#&%#&%#&%#&%#&%#"
  "&%#&%#&%#&%#&%#&%#&%#&``0b&&#&&c`0F'&b`0#&,#(-(&ND1)&MF1b&&#&&#*%8dS$&9NX$'T%MX$*EU$HX$&]P2)&^`"
  "0#&4#(5(&cD1)&EG1M'%<dS$&BDT$%>dS$&@NX$&TF1M'&#%&#F'&OD1[&&#&&F$*%W&dS$*V%HX$&F$#&E&[&&#&&#*%Ad"
  "S$(LK1DT$&#%&#F'&UG1[&&#&&/*%Y$dS$&F$JU$&#%&+a%&/#&O%[&&#&&#*%Q$dS$&J$LU$&US$K$%_Q$dS$%MV$#*]U2"
  "NX$&I`0#&-#(,(&_F1)&QI1M'%I$dS$&_$DT$%W$dS$&X$NX$%MS$MX$)aX2#%%#N5WI1#+`Y$#%X*#d)ZP3TW$&'#K$'#d"
  "$]&#&+#&&#O&F&#.-#*)#U$T$#('#[$R$#*1#*'#()#S$YD4#(LF4#:K$#&EE4#&'#&PF4#&%#*=#&%#*)#&%#2)#&%#*1#"
  "&%#*)#&%#K%Z$#&/#&%#&'#G&b%#&%#&L$#&%#2D%#&%#&%#&%#]&JY)SW$%%#H`&[V%TW$E[%aZ%FZ9('#('#('#('#('#",
  "('#('#('#('#('#('#*)#('#('#21#&#%()$&#%()$&#%()$&#%()$&#%S$M&$8R(#A@#('#('#('#('#('#('#('#('#('"
  "#('#('#*)#('#('#21#&#%()$&#%()$&#%()$&#%()$&#%S$M&$*V'#&%#&%#&%#,9#HDH&ZXQ$UM;%KY5#%Pb6#%GD$#%Q"
  "d1#%bM3#%J`%#%R`I$#%##%YHG$#%DL@#%WHB#%Fa$#%aN'#%JK-#%]U'#%XO&#%Z:#%a6#%R^&#%^L6#%VU$#%a`$#%NT$"
  "#%cI+#%_V)#%RL'#%bZI$#%JS%#%c].#%RU&#%HE-#%Fd.#%`PD$#%ZM,#%Hc-#%R^$#%YM6#%cT2#%RH&#%MY7#%_H'#%J"
  "I&#%H^%#%Hb1#%SXD$#%FG$#%R5#%Pc+#%cD&#%_W&#%RQ%#%XU'#%ND&#%P(#%J^&#%JX'#%_G%#%ZL$#%`Z5#%J2#%FF%"
  "#%VF&#%ZW*#%Z[(#%U_,#%Qd;#%NF&#%]Y1#%aE%#%[E*#%TJ&#%Td,#%NG(#%bEC#%X]$#%F`)#%Ra$#%N6#%DF*#%T3#%"
  "LE/#%U[E$#%V`9#%bN:#%C#%DI7#%H_$#%JG&#%LL,#%MS(#%EO7#%JW&#%]S3#%MPB#%a_)#%ZF%#%N[,#%VB#%UI4#%Lc"
  "5#%[W7#%Xc*#%[^+#%cO2#%KY&#%X_.#%bY7#%ZM%#%JN2#%TX)#%FJ&#%dR2#%Pd4#%SV4#%W]'#%Rc2#%MX2#%Na+#%QO"
  "6#%ZO$#%D)#%TO.#%PJ-#%T]%#%JJ'#%_S&#%WQC#%_7#%FW%#%V[%#%VQ&#%VG(#%]V'#%JL1#%_O%#%_F%#%R&#%IGJ$#"
  "%ZF-#%FO%#%Zc4#%`R;#%]U$#%D*#%XM$#%VL(#%PF$#%DX$#%FX%#%XF%#%ZK$#%RO*#%SG(#%NW(#%RV$#%IWD$#%]+#%"
  "XE$#%ZD1#%Xd.#%TB#%Ec8#%]5#%P]$#%JG'#%DM+#%UP'#%EM5#%NE'#%aR%#%JA#%HJ$#%P^,#%R.#%FW(#%]-#%ac+#%"
  "HP%#%H(#%D0#%^LH$#%JF8#%PD/#%LT%#%Qb=#%YI,#%LI$#%LU(#%F(#%XY'#%VJ%#%]a&#%LK%#%XO*#%D](#%FU*#%MT"
  "@#%P_:#%M_E$#%HS-#%T*#%aX%#%Z8#%_Z%#%D8#%HU$#%NN%#%aX0#%ESG$#%FP+#%XH=#%^HG$#%aR)#%FQ+#%DX3#%b^"
  ":#%V>#%JQ&#%D[(#%cS4#%^IF$#%PB#%PI'#%a_'#%Z6#%X8#%_G%#%FV&#%]A#%R^'#%PY'#%H$#%ZR'#%PU%#%I_E$#%Z"
  "[0#%^M0#%J`1#%TP$#%HZ+#%VN+#%L`%#%TH$#%ST>#%LG&#%_E-#%^U&#%N(#%H:#%Gb'#%QF$#%cO0#%SMB#%PK=#%[S;"
  "#%I&#%cM)#%_F%#%JD0#%EY3#%V^+#%WJ&#%RL7#%bR&#%FD*#%GP)#%SO8#%I^)#%DL%#)XM$#'XE*#)OM-#%]X3#%D_$#"
  "%HK$#%H%#%1#%X%#%Ra1#%SM0#%cS$#'NI&#'PR%#)DX%#%N/#+Hd&#%=#%]%#%]L%#%OQ)#%Vb%#%UTG$#%V6#%P)#%]:#"
  "%Z$#%_)#%]H$#%V)#%H)#%TA#%T)#%]`$#%7#%PF%#%L0#%P%#%L)#%_Y$#%J,#%c-#%LC#%HS%#%J-#%T3#%]H$#%_.#%R"
  "C#%cJ%#%_-#%9#%$#%3#%/#%1#%D&#%%#%H.#%F'#%c6#%LG$#%N$#%T&#%F6#%J,#%TB#%]+#%##%aA#%VO%#%P+#%Z9#%"
  "T&#%X<#%N&#%aN$#%H+#%ZN&#%]4#%]&#%Oa>#%VKU*#%OQD*#)Gd<#%c]$#%^'#%SB#%N@#%Z&#%R7#%J&#%JN$#%S'#%L"
  "'#%V'#%TK$#%V(#%F,#%D$#%a3#%P/#%X_$#%1#%D,#%L'#%Z5#%P*#%O'#%P+#%`%#%H,#%H'#%D<#%T(#%P&#%L3#%a4#"
  "%J-#%+#%Z&#%JF%#%F'#%R;#%X<#%C#%R(#%]2#%D8#%VG&#%G[%#%X*#%Z*#%R7#%N,#%N&#%H1#%'#%Z-#%F$#%V$#%P("
  "#%6#%];#%NB#%c3#%Z.#%D1#%V,#%X7#%R/#%_X$#%_,#%X]$#%T@#%N'#%D$#%V5#%V&#%^%#%P&#%(#%E$#%]'#%F(#%a"
  ":#%DG$#%X6#%R5#%_0#%PD%#%R)#%J*#%N+#%L%#%;#%D&#%RQ$#%XL%#%aNH)#%.#%F^(#%SGa*#%ZK%#%F%#%DEM+#%RL"
  "(#%JD4#%d]S*#%Z'#L'M`P%L`%'V$)947%#%%DZ_&$%#%%U[_&8%#%%#+%%#%%#%%#%%#%%#%%#''#%%#%%#%%#%%#''#''"
  "#%%#''#%%#''#%%#%%#%%#%%#%M$(%*/%7#%5#^X-NOI'ZSI'('#C7#K+]+_)&%#^E$NE$RE$&#V$d9H:J9&#6(#=^2c2H2"
  "&%#J_b%a^b%P`b%%%#%15%#%%#%%#%%#%R(X(<%%#%%5%%#%$%%%#DHW'b[E)bZL*%,#%5#%FR^)#%Ga])#%a'#%=#%R'#%"
  "T*#%c$#%a'#%S$#%EG1#%]^L*#%^R_)#%1#%D$#%J$#%N_^)#%IJL*#%aN1#%P%#%a`^)#%K`^)#%=#%SQ$#%DR$#%5#%XF"
  "D,#%Wcd+#%@#%KV1#%]Y1#%9#%]%#%-#%GZ1#%H`1#%'#%Z$#%P$#%9#%%#%F$#%H&#%3#%5#%V$#%7#%'#%##%##%_N`)#"
  "%[`P)#%ON1#%N$#%L]`)#%S[`)#%/#%N$#%T,#%O)#%D$#%D%#%X&#%L(#%X$#%J'#%D$#%F%#%##%N$#%H$#%3#%B#%L8#"
  "%d3#%F4#%O/#%J%#%^J%#%RR&#%d4#%P%#%V$#%G+#%R-#%$#%Z*#%TGc)#%Gdb)#%-#%B#%L$#%3#%D'#%PXc)#%H'#%`S"
  "c)#%c%#%;#%b'#%a+#%S[4#%@#%]D5#%P&#%##%XLd)#%MDd)#%N$#%B#%;#%NVd)#%UUd)#%1#%_X$#%EW$#%EN5#%cQ5#"
  "%@#%H(#%I&#%RYD*#%END*#%JND*#%SKD*#%(#%F$#%N)#%%#%I`5#%aa5#%Z%#%N$#%]%#%QD6#%FVX*#%QTX*#%LG6#%)"
  "#%)#%L$#%TPF,#%KMF,#%JGF*#%##%dVT)#%bQ4#%##%YI6#%Fda*#%HV:#%SKE+#%5#%SL6#%RO6#%J&#%7#%H%#%T+#%Q"
  "X6#%`$#%T[6#%DHG*#%^DG*#%F+#%+#%'#%&#%a%#%L$#%L%#%>#%9#%c%#%L$#%+#%X$#%9#%H'#%L(#%J%#%]*#%]`G*#"
  "%baG*#%E'#%])#%Z$#%F)#%_DH*#%baG*#%^(#%[$#%Y[7#%ZG8#%N$#%c$#%O%#%YD8#%JR8#%_$#%aMI*#%QFI*#%N4#%"
  "b-#%dV8#%T[8#%U]8#%K%#%aN.#%)#%ZZ-#%K)#%FE0#%KQB#%aW4#%+#%/#%_&#%8#%DKJ*#%WKa*#%FO9#%M*#%_/#%J&"
  "#%TcI*#%bbI*#%b)#%N2#%Q[9#%N_9#%F)#%R'#%a.#%ZdI*#%SaI*#%IP:#%VT:#%P]J*#%IYJ*#%OT:#%LV:#%_%#%Z$#"
  "%%#%HQK*#%G]1#%cc1#%[NK*#%aJL*#%^dK*#%@#%O)#%c-#%T%#%V&#%O&#%T%#%B#%=#%V^K*#%WcK*#%Z2#%c&#%YW;#"
  "%T^;#%*#%XDL*#%SQL*#%N:#%DdK*#%D&#%SaK*#%J*#%Y$#%(#%ML<#%LO<#%J&#%.#%P&#%TKN)#%dbM)#%aUL*#%QPL*",
  "#%cDM*#%I]L*#%=#%Z$#%T`M*#%S]M*#%N$#%DNN*#%c0#%WMN*#%F$#%bQ=#%VS=#%^R=#%##%c]=#%N$#%N$#%L$#%N'#"
  "%b_=#%VD>#%HUO*#%SSO*#%LYO*#%GVO*#%cFZ)#%b]Y)#%F^P*#%R$#%]+#%SHL+#%;#%]R>#%cdP*#%$#%R%#%X$#%MEQ"
  "*#%%#%##%Z%#%EU>#%HY>#%MX>#%D(#%R]M+#%baQ*#%a&#%D'#%Uc>#%JXN+#%dPR*#%LXR*#%Z%#%OWR*#%](#%[O@#%F"
  "U@#%7#%-#%_VS*#%Z5#%##%U`S*#%[R@#%V_P+#%McS*#%)#%G_@#%VIQ+#%`_S*#%GGA#%THA#%,#%_$#%PLU*#%IFU*#%"
  "GJA#%PPA#%Z&#%J'#%EUA#%LSS+#%c$#%`RS+#%D]S+#%bYU*#%LaU*#%U_U*#%N)#%9#%NQV*#%V'#%IPV*#%TXV*#%SWV"
  "*#%cR^)#%W][*#%_QB#%F(#%SSB#%JWB#%UL6#%HSJ+#%@#%GF=#%5#%Y^])#%)#%X^)#%IWI$#%PFC#%.#%H$#%Wc:#%ad"
  ":#%'#%7#%V%#%PIX*#%QIX*#%T&#%P'#%X'#%W+#%X,#%X%#%D*#%K3#%R*#%'#%D$#%XIX*#%N6#%O,#%W_W+#%PaC#%'#"
  "%J%#%LO[*#%OJ[*#%TaX*#%baX+#%+#%DIY+#%F5#%QZY+#%NRD$#%;#%9#%'#%D'#%E%#%P+#%[%#%R,#%E(#%J'#%Z$#%"
  "b_D$#%XDE$#%D%#%SDE$#%RJE$#%)#%LD[*#%d]Z*#%1#%UNE$#%NPE$#%bGN$#%JdE,#%T.#%SN^+#%5#%VbE$#%_'#%_,"
  "#%Z/#%JI]*#%^d[*#%P$#%X(#%](#%T`]*#%YV`$#%UGb(#%A#%L&#%aRb(#%WDb(#%L)#%XM`*#%Z$#%UY_*#%_(#%D%#%"
  "_E`*#%IE`*#%_4#%c,#%%#%[(#%_:#%]$#%Nc`*#%bJ`*#%OdI$#%HFJ$#%Da`*#%E^E,#%_QJ$#%EU@#%F[@#%HFb*#%N0"
  "#%[_G,#%3#%XZJ$#%XFc*#%SYH,#%LcH,#%YLc*#%##%a$#%_]c*#%KQc*#%b_J$#%PdJ$#%a*#%Z$#%]&#%dFK$#%HZK,#"
  "%`ED+#%a5#%_.#%bFL$#%c$#%XKL$#%RZE+#%ObM,#%_DN,#%V3#%J+#%ObE+#%MZL$#%J_L$#%-#%1#%7#%1#%N%#%NPG+"
  "#", NULL};
/* end of tables */

/* ---- room and refusals ---- */

#define TOK__NONE 0xffffffffu
#define TOK__STOP(r, result, ...) (tok__say(r, result, __VA_ARGS__), 0)

enum { TOK__MAX_TEXT = 1 << 30, TOK__MAX_FILE = 1 << 28, TOK__STEPS = 8, TOK__ENDS = 8,
       TOK__MAX_FOUND = 1000,   /* bytes of a token that is looked for at each place of a text    */
       TOK__GROWTH = 64 };      /* how many times as long normalizers may make a text             */

/* Where memory comes from, what is left of it, and why a call failed. */
typedef struct tok__room {
  miras_allocator from;
  uint64_t limit, used;
  miras_result result;
  char *why;
  size_t why_size;
} tok__room;

/* Bytes that grow. */
typedef struct tok__buffer {
  char *at;
  size_t size, room;
} tok__buffer;

/* Refuse; the first reason counts. */
#if defined(__MINGW32__) && !defined(__clang__)   /* whose printf is that of another C library */
__attribute__((format(gnu_printf, 3, 4)))
#elif defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void tok__say(tok__room *r, miras_result result, const char *format, ...) {
  va_list list;
  if (r->result != MIRAS_OK) return;
  r->result = result;
  if (!r->why || !r->why_size) return;
  va_start(list, format);
  vsnprintf(r->why, r->why_size, format, list);
  va_end(list);
}

static void *tok__default_alloc(size_t bytes, void *user) {
  (void)user;
  return MIRAS_MALLOC(bytes);
}

static void tok__default_free(void *pointer, size_t bytes, void *user) {
  (void)bytes;
  (void)user;
  MIRAS_FREE(pointer);
}

static void tok__room_init(tok__room *r, uint64_t limit, const miras_allocator *allocator,
                           char *why, size_t why_size) {
  const miras_allocator standard = {tok__default_alloc, tok__default_free, NULL};
  memset(r, 0, sizeof *r);
  r->from = allocator && allocator->alloc ? *allocator : standard;
  r->limit = limit;
  r->result = MIRAS_OK;
  r->why = why;
  r->why_size = why_size;
  if (why && why_size) why[0] = 0;
}

static void *tok__alloc(tok__room *r, size_t bytes) {
  void *at;
  if (r->limit && (bytes > r->limit || r->used > r->limit - bytes)) {
    tok__say(r, MIRAS_ERR_SIZE, "limit is %.0f bytes; the vocabulary takes %.0f more than the %.0f "
             "so far", (double)r->limit, (double)bytes, (double)r->used);
    return NULL;
  }
  at = r->from.alloc(bytes, r->from.user);
  if (!at) tok__say(r, MIRAS_ERR_ALLOC, "the allocator returned no memory");
  else r->used += bytes;
  return at;
}

static void tok__release(tok__room *r, void *at, size_t bytes) {
  if (!at) return;
  r->used -= bytes;
  if (r->from.free) r->from.free(at, bytes, r->from.user);
}

static void tok__drop(tok__room *r, tok__buffer *b) {
  tok__release(r, b->at, b->room);
  memset(b, 0, sizeof *b);
}

/* Room for `more` bytes behind what b holds. */
static int tok__reserve(tok__room *r, tok__buffer *b, size_t more) {
  size_t room = b->room < 64 ? 64 : b->room;
  char *at;
  if (more <= b->room - b->size) return 1;
  if (more > (size_t)-1 / 4 - b->size)
    return TOK__STOP(r, MIRAS_ERR_SIZE, "the vocabulary does not fit into this machine");
  while (room - b->size < more) room += room / 2;
  at = (char *)tok__alloc(r, room);
  if (!at) return 0;
  if (b->size) memcpy(at, b->at, b->size);
  tok__release(r, b->at, b->room);
  b->at = at;
  b->room = room;
  return 1;
}

static int tok__put(tok__room *r, tok__buffer *b, const void *from, size_t n) {
  if (!tok__reserve(r, b, n)) return 0;
  if (n) memcpy(b->at + b->size, from, n);
  b->size += n;
  return 1;
}

/* ---- characters ---- */

/* What a character is: the values of tok__classes. */
enum { TOK__OTHER, TOK__LETTER, TOK__NUMBER, TOK__NO_WORD, TOK__MARK, TOK__WORD, TOK__SPACE,
       TOK__DIGIT,      /* for Digits alone                                                       */
       TOK__CLASS = 7,
       TOK__MOVES = 8,  /* NFC may change it, or the characters around it                         */
       TOK__FLAT = 0x33480 };

/* The character at p, whose bytes are valid UTF-8, and its length. */
static size_t tok__char(const char *p, uint32_t *c) {
  const unsigned char *s = (const unsigned char *)p;
  if (s[0] < 0x80) return *c = s[0], 1;
  if (s[0] < 0xe0) return *c = (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu), 2;
  *c = (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
  if (s[0] < 0xf0) return 3;
  *c = (*c << 6 | (s[3] & 0x3fu)) & 0x1fffff;
  return 4;
}

static size_t tok__put_char(char *to, uint32_t c) {
  const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  size_t i;
  for (i = n; i-- > 1; c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
  to[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xff) | c);
  return n;
}

/* The bytes of the character at p as far as they are one: how many, and *whole says if it ends. */
static size_t tok__valid(const unsigned char *p, const unsigned char *end, int *whole) {
  const unsigned c = *p;
  const size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
  size_t i;
  *whole = n == 1;
  if (n < 2) return 1;
  for (i = 1; i < n && p + i < end; i++) {
    const unsigned low = i > 1 ? 0x80 : c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    const unsigned high = i > 1 ? 0xbf : c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (p[i] < low || p[i] > high) break;
  }
  *whole = i == n;
  return i;
}

/* How many bytes at the beginning are valid UTF-8. */
static size_t tok__valid_count(const char *text, size_t n) {
  const unsigned char *p = (const unsigned char *)text, *end = p + n;
  int whole = 1;
  while (p < end) {
    size_t length;
    if (*p < 0x80) {
      p++;
      continue;
    }
    length = tok__valid(p, end, &whole);
    if (!whole) break;
    p += length;
  }
  return (size_t)(p - (const unsigned char *)text);
}

/* A table is strings, and then NULL. */
typedef struct tok__table {
  const char *const *part;
  const char *at;
} tok__table;

static int tok__table_more(tok__table *table) {
  if (table->at && !*table->at) table->at = *++table->part;
  return table->at != NULL;
}

/* Its next number: digits of 5 bits, the lowest first, and whether more follow. */
static uint32_t tok__table_next(tok__table *table) {
  uint32_t n = 0, digit;
  int shift = 0;
  do {
    const int c = tok__table_more(table) ? *table->at++ : 35;
    digit = (uint32_t)(c - 35 - (c > '?') - (c > '\\'));
    n |= (digit & 31) << shift;
    shift += 5;
  } while (digit > 31);
  return n;
}

/* The character of a byte in the alphabet of byte-level vocabularies: itself if it can be seen,
 * else one from U+0100 on. */
static uint32_t tok__letter_of(unsigned byte) {
  if ((byte > 32 && byte < 127) || (byte > 160 && byte != 173)) return byte;
  return byte <= 32 ? 256 + byte : byte == 173 ? 323 : 256 + 33 + (byte - 127);
}

/* And back: the byte, or -1 for a character that is not of that alphabet. */
static int tok__byte_of(uint32_t c) {
  if ((c > 32 && c < 127) || (c > 160 && c < 256 && c != 173)) return (int)c;
  if (c < 256 || c > 323) return -1;
  return c == 323 ? 173 : c <= 288 ? (int)c - 256 : (int)c - 289 + 127;
}

/* ---- the vocabulary ---- */

typedef struct tok__pair {
  uint32_t a, b, rank, to;   /* a TOK__NONE: no pair                                              */
} tok__pair;

/* A hash of pairs of numbers: merges, the edges of trees, and what NFC makes of characters. */
typedef struct tok__pairs {
  tok__buffer at;
  uint32_t mask, count;      /* mask 0: there is no pair yet                                      */
} tok__pairs;

enum { TOK__KNOWN = 1,       /* there is a token of this id                                       */
       TOK__MODEL = 2,       /* it is the model's, not only an added one                          */
       TOK__ADDED = 4, TOK__SPECIAL = 8, TOK__LEFT = 16, TOK__RIGHT = 32, TOK__ALONE = 64,
       TOK__NORMAL = 128,
       TOK__RAW = 256 };     /* its text is what it says, in a byte-level vocabulary too          */

typedef struct tok__token {
  uint32_t at, size;         /* its text in `text`                                                */
  uint32_t shown, shown_size;/* and what decoding makes its bytes of                              */
  uint32_t rank, flags;
} tok__token;

enum { TOK__NFC, TOK__PREPEND, TOK__REPLACE,                           /* of normalizers          */
       TOK__SPLIT, TOK__DIGITS, TOK__BYTE_LEVEL, TOK__METASPACE };     /* of pre-tokenizers       */

typedef struct tok__step {
  int kind, rule, first;     /* rule: of tok__splits; digits one by one; where Metaspace prepends */
  int prefix, split;
  char from[16], to[16];     /* of Replace; Prepend's and Metaspace's text is `to`                */
} tok__step;

enum { TOK__BPE, TOK__SCORES, TOK__TREE };
enum { TOK__AS_BYTES = 1, TOK__AS_REPLACED = 2, TOK__AS_FALLBACK = 4, TOK__AS_FUSED = 8,
       TOK__AS_STRIPPED = 16, TOK__AS_METASPACE = 32, TOK__AS_DROPPING = 64 };

struct miras_tokenizer {
  tok__room room;
  tok__buffer text, tokens, slots;   /* texts; tok__token [size]; ids by the hash of their text   */
  tok__pairs merges, edges, marks;
  uint64_t seed;
  uint32_t size, slot_mask, known, nodes;
  uint32_t bytes[256], fallback[256];/* tokens of single bytes, and of <0x00> to <0xFF>           */
  unsigned char first[2][256];       /* bytes that added tokens begin with                        */
  unsigned char *classes;            /* [TOK__FLAT]                                               */
  tok__step normal[TOK__STEPS], pre[TOK__STEPS];
  int normals, pres, kind, byte_level, ignore_merges, fuse, use_fallback, shows, stripped;
  uint32_t unknown, end, before[TOK__ENDS], after[TOK__ENDS];
  int befores, afters;
  char shown_from[16], shown_to[16]; /* of Replace in the decoder                                 */
};

static uint32_t tok__hash(uint64_t seed, const char *p, size_t n) {
  uint64_t h = seed ^ n, word;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&word, p, 8);
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32) * UINT64_C(0xbf58476d1ce4e5b9);   /* else two words' top bits cancel out */
  }
  word = 0;
  if (n) memcpy(&word, p, n);
  h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
  return (uint32_t)(h >> 32);
}

static tok__token *tok__tokens(const miras_tokenizer *t) { return (tok__token *)t->tokens.at; }

/* The token of that text in the vocabulary; TOK__NONE: there is none. */
static uint32_t tok__find(const miras_tokenizer *t, const char *text, size_t n) {
  const uint32_t *slots = (const uint32_t *)t->slots.at;
  uint32_t i;
  if (!t->slots.at) return TOK__NONE;
  for (i = tok__hash(t->seed, text, n) & t->slot_mask; slots[i] != TOK__NONE;
       i = (i + 1) & t->slot_mask) {
    const tok__token *token = tok__tokens(t) + slots[i];
    if (token->size == n && memcmp(t->text.at + token->at, text, n) == 0) return slots[i];
  }
  return TOK__NONE;
}

/* The same of the model's tokens. */
static uint32_t tok__find_model(const miras_tokenizer *t, const char *text, size_t n) {
  const uint32_t id = tok__find(t, text, n);
  return id != TOK__NONE && tok__tokens(t)[id].flags & TOK__MODEL ? id : TOK__NONE;
}

/* Let a token's text lead to it; another's of the same text leads to the new one. */
static int tok__index(miras_tokenizer *t, uint32_t id) {
  tok__room *r = &t->room;
  const tok__token *tokens = tok__tokens(t);
  uint32_t i, *slots;
  if (!t->slots.at || t->known > t->slot_mask / 2) {
    const uint32_t mask = t->slots.at ? 2 * t->slot_mask + 1 : 1023;
    tok__buffer old = t->slots;
    memset(&t->slots, 0, sizeof t->slots);
    if (!tok__reserve(r, &t->slots, ((size_t)mask + 1) * sizeof(uint32_t))) {
      t->slots = old;
      return 0;
    }
    memset(t->slots.at, 0xff, ((size_t)mask + 1) * sizeof(uint32_t));
    slots = (uint32_t *)t->slots.at;
    for (i = 0; old.at && i <= t->slot_mask; i++) {
      const uint32_t moved = ((uint32_t *)old.at)[i];
      uint32_t k;
      if (moved == TOK__NONE) continue;
      k = tok__hash(t->seed, t->text.at + tokens[moved].at, tokens[moved].size) & mask;
      while (slots[k] != TOK__NONE) k = (k + 1) & mask;
      slots[k] = moved;
    }
    t->slot_mask = mask;
    tok__drop(r, &old);
  }
  slots = (uint32_t *)t->slots.at;
  i = tok__hash(t->seed, t->text.at + tokens[id].at, tokens[id].size) & t->slot_mask;
  for (; slots[i] != TOK__NONE; i = (i + 1) & t->slot_mask) {
    const tok__token *token = tokens + slots[i];
    if (token->size == tokens[id].size &&
        memcmp(t->text.at + token->at, t->text.at + tokens[id].at, token->size) == 0) break;
  }
  t->known += slots[i] == TOK__NONE;
  slots[i] = id;
  return 1;
}

/* Make room for a token of that id, and see that it is new. */
static tok__token *tok__token_new(miras_tokenizer *t, uint32_t id) {
  const size_t wanted = ((size_t)id + 1) * sizeof(tok__token);
  if (wanted > t->tokens.size) {
    if (!tok__reserve(&t->room, &t->tokens, wanted - t->tokens.size)) return NULL;
    memset(t->tokens.at + t->tokens.size, 0, wanted - t->tokens.size);
    t->tokens.size = wanted;
    t->size = id + 1;
  }
  if (tok__tokens(t)[id].flags & TOK__KNOWN) {
    tok__say(&t->room, MIRAS_ERR_FORMAT, "two tokens have the id %lu", (unsigned long)id);
    return NULL;
  }
  tok__tokens(t)[id].flags = TOK__KNOWN;
  return tok__tokens(t) + id;
}

static uint32_t tok__pair_hash(uint64_t seed, uint32_t a, uint32_t b) {
  uint64_t h = ((uint64_t)a << 32 | b) ^ seed;
  h *= UINT64_C(0x9e3779b97f4a7c15);
  h = (h ^ h >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
  return (uint32_t)(h >> 32);
}

/* The place of a pair, or the free one where it belongs. */
static tok__pair *tok__pair_place(const miras_tokenizer *t, const tok__pairs *p, uint32_t a,
                                  uint32_t b) {
  tok__pair *pairs = (tok__pair *)p->at.at;
  uint32_t i = tok__pair_hash(t->seed, a, b) & p->mask;
  while (pairs[i].a != TOK__NONE && (pairs[i].a != a || pairs[i].b != b)) i = (i + 1) & p->mask;
  return pairs + i;
}

static const tok__pair *tok__pair_find(const miras_tokenizer *t, const tok__pairs *p, uint32_t a,
                                       uint32_t b) {
  const tok__pair *found = p->mask ? tok__pair_place(t, p, a, b) : NULL;
  return found && found->a != TOK__NONE ? found : NULL;
}

/* The pair, which is new if its `to` is TOK__NONE. */
static tok__pair *tok__pair_make(miras_tokenizer *t, tok__pairs *p, uint32_t a, uint32_t b) {
  tok__pair *place;
  if (!p->mask || p->count > p->mask / 2) {
    const tok__pairs old = *p;
    const uint32_t mask = old.mask ? 2 * old.mask + 1 : 255;
    const size_t bytes = ((size_t)mask + 1) * sizeof(tok__pair);
    tok__buffer gone = old.at;
    uint32_t i;
    memset(&p->at, 0, sizeof p->at);
    if (!tok__reserve(&t->room, &p->at, bytes)) {
      p->at = old.at;
      return NULL;
    }
    memset(p->at.at, 0xff, bytes);
    p->mask = mask;
    for (i = 0; old.mask && i <= old.mask; i++) {
      const tok__pair *moved = (tok__pair *)gone.at + i;
      if (moved->a != TOK__NONE) *tok__pair_place(t, p, moved->a, moved->b) = *moved;
    }
    tok__drop(&t->room, &gone);
  }
  place = tok__pair_place(t, p, a, b);
  if (place->a == TOK__NONE) {
    place->a = a;
    place->b = b;
    p->count++;
  }
  return place;
}

/* Add a text to the tree with that root. */
static int tok__tree_add(miras_tokenizer *t, uint32_t root, const char *text, size_t n,
                         uint32_t id) {
  uint32_t at = root;
  tok__pair *edge = NULL;
  size_t i;
  if (n > TOK__MAX_FOUND)
    return TOK__STOP(&t->room, MIRAS_ERR_DESC, "token %lu has %.0f bytes; a token that is looked "
                     "for in texts has at most %d", (unsigned long)id, (double)n, TOK__MAX_FOUND);
  for (i = 0; i < n; i++) {
    edge = tok__pair_make(t, &t->edges, at, (unsigned char)text[i]);
    if (!edge) return 0;
    if (edge->to == TOK__NONE) edge->to = t->nodes++;
    at = edge->to;
  }
  if (edge) edge->rank = id;
  return 1;
}

/* The longest text of the tree that begins at `at`: its token, and its length. */
static uint32_t tok__tree_longest(const miras_tokenizer *t, uint32_t root, const char *at,
                                  const char *end, size_t *length) {
  const char *from = at;
  uint32_t node = root, token = TOK__NONE;
  while (at < end) {
    const tok__pair *edge = tok__pair_find(t, &t->edges, node, (unsigned char)*at++);
    if (!edge) break;
    if (edge->rank != TOK__NONE) {
      token = edge->rank;
      *length = (size_t)(at - from);
    }
    node = edge->to;
  }
  return token;
}

/* ---- characters of a tokenizer: classes and NFC ---- */

#define TOK__PARTS 0xfffffffeu   /* what stands beside a character in `marks`                     */
#define TOK__ORDER 0xfffffffdu

static int tok__class(const miras_tokenizer *t, uint32_t c) {
  if (c < TOK__FLAT) return t->classes[c] & TOK__CLASS;
  return c - 0xe0100 < 240 ? TOK__MARK : TOK__OTHER;
}

static int tok__classes_open(miras_tokenizer *t) {
  tok__table table = {tok__classes, tok__classes[0]};
  uint32_t c = 0;
  t->classes = (unsigned char *)tok__alloc(&t->room, TOK__FLAT);
  if (!t->classes) return 0;
  memset(t->classes, 0, TOK__FLAT);
  while (tok__table_more(&table)) {
    const uint32_t run = tok__table_next(&table);
    memset(t->classes + c, (int)(run & 7), run >> 3);
    c += run >> 3;
  }
  return 1;
}

/* The tables of NFC: for a pair of characters what they become, for a character its two parts (rank
 * and to; 0: one part) or its order (to). */
static int tok__marks_open(miras_tokenizer *t) {
  tok__table orders = {tok__orders, tok__orders[0]}, parts = {tok__parts, tok__parts[0]};
  uint32_t whole = 0, part[2] = {0, 0}, c = 0, i;
  tok__pair *p;
  if (t->marks.mask) return 1;
  while (tok__table_more(&orders)) {
    const uint32_t run = tok__table_next(&orders);
    for (i = 0; i < run >> 8; i++, c++) {
      if (!(run & 255)) continue;
      p = tok__pair_make(t, &t->marks, c, TOK__ORDER);
      if (!p) return 0;
      p->to = run & 255;
      t->classes[c] |= TOK__MOVES;
    }
  }
  while (tok__table_more(&parts)) {
    const uint32_t step = tok__table_next(&parts);
    whole += step >> 1;
    for (i = 0; i < 2; i++) {
      const uint32_t n = tok__table_next(&parts);
      part[i] += n & 1 ? ~(n >> 1) : n >> 1;
    }
    p = tok__pair_make(t, &t->marks, whole, TOK__PARTS);
    if (!p) return 0;
    p->rank = part[0];
    p->to = part[1];
    if (step & 1) {
      p = tok__pair_make(t, &t->marks, part[0], part[1]);
      if (!p) return 0;
      p->to = whole;
    }
    t->classes[step & 1 ? part[1] : whole] |= TOK__MOVES;
  }
  for (c = 0x1161; c < 0x11c3; c++)   /* vowels and ends of Hangul, which join what is before */
    if (c < 0x1176 || c > 0x11a7) t->classes[c] |= TOK__MOVES;
  return 1;
}

/* ---- a text at work: normalizers ---- */

typedef struct tok__work {
  const miras_tokenizer *t;
  tok__room room;
  int flags;
  int32_t *ids;
  size_t most, count;
  tok__buffer valid, normal[2], step[TOK__STEPS];   /* the text without damage; of normalizers; of
                                                       pre-tokenizers                             */
  tok__buffer chars, symbols, heap, word;
} tok__work;

static void tok__emit(tok__work *w, uint32_t id) {
  if (w->count < w->most) w->ids[w->count] = (int32_t)id;
  w->count++;
}

static void tok__work_close(tok__work *w) {
  int i;
  tok__drop(&w->room, &w->valid);
  for (i = 0; i < 2; i++) tok__drop(&w->room, &w->normal[i]);
  for (i = 0; i < TOK__STEPS; i++) tok__drop(&w->room, &w->step[i]);
  tok__drop(&w->room, &w->chars);
  tok__drop(&w->room, &w->symbols);
  tok__drop(&w->room, &w->heap);
  tok__drop(&w->room, &w->word);
}

/* Hangul is made of parts by arithmetic: the Unicode Standard, 3.12. */
enum { TOK__S = 0xac00, TOK__L = 0x1100, TOK__V = 0x1161, TOK__T = 0x11a7,
       TOK__LS = 19, TOK__VS = 21, TOK__TS = 28 };

/* Append a character to w->chars, its order above the 24 lowest bits. */
static int tok__put_ordered(tok__work *w, uint32_t c) {
  const tok__pair *order = NULL;
  if (c < TOK__FLAT && w->t->classes[c] & TOK__MOVES)
    order = tok__pair_find(w->t, &w->t->marks, c, TOK__ORDER);
  if (order) c |= order->to << 24;
  return tok__put(&w->room, &w->chars, &c, sizeof c);
}

static int tok__put_parts(tok__work *w, uint32_t c) {
  uint32_t later[8];
  int n = 0, good = 1;
  if (c - TOK__S < TOK__LS * TOK__VS * TOK__TS) {
    const uint32_t s = c - TOK__S;
    return tok__put_ordered(w, TOK__L + s / (TOK__VS * TOK__TS)) &&
           tok__put_ordered(w, TOK__V + s / TOK__TS % TOK__VS) &&
           (s % TOK__TS == 0 || tok__put_ordered(w, TOK__T + s % TOK__TS));
  }
  while (c >= 0xc0 && n < 8) {
    const tok__pair *parts = tok__pair_find(w->t, &w->t->marks, c, TOK__PARTS);
    if (!parts) break;
    if (parts->to) later[n++] = parts->to;
    c = parts->rank;
  }
  for (good = tok__put_ordered(w, c); good && n;) good = tok__put_ordered(w, later[--n]);
  return good;
}

/* Marks between others come by their order, those of one order as they stood: by insertion, and
 * where they are many by counting. */
static int tok__sort_marks(tok__work *w, uint32_t *at, size_t n) {
  size_t place[257], i, k;
  uint32_t *copy;
  if (n <= 20) {
    for (i = 1; i < n; i++) {
      const uint32_t c = at[i];
      for (k = i; k && at[k - 1] >> 24 > c >> 24; k--) at[k] = at[k - 1];
      at[k] = c;
    }
    return 1;
  }
  w->heap.size = 0;
  if (!tok__put(&w->room, &w->heap, at, n * sizeof *at)) return 0;
  copy = (uint32_t *)w->heap.at;
  memset(place, 0, sizeof place);
  for (i = 0; i < n; i++) place[(copy[i] >> 24) + 1]++;
  for (i = 1; i < 257; i++) place[i] += place[i - 1];
  for (i = 0; i < n; i++) at[place[copy[i] >> 24]++] = copy[i];
  return 1;
}

/* What two characters become, or 0. */
static uint32_t tok__joined(const miras_tokenizer *t, uint32_t a, uint32_t b) {
  const tok__pair *p;
  if (a - TOK__L < TOK__LS && b - TOK__V < TOK__VS)
    return TOK__S + ((a - TOK__L) * TOK__VS + (b - TOK__V)) * TOK__TS;
  if (a - TOK__S < TOK__LS * TOK__VS * TOK__TS && (a - TOK__S) % TOK__TS == 0 &&
      b - TOK__T - 1 < TOK__TS - 1) return a + (b - TOK__T);
  p = tok__pair_find(t, &t->marks, a, b);
  return p ? p->to : 0;
}

/* NFC: take all characters apart, order their marks, and join what joins. A text in which no
 * character can move is its own. */
static int tok__nfc(tok__work *w, const char *text, size_t n, tok__buffer *to) {
  const char *at, *end = text + n;
  uint32_t c, *chars, *start = NULL;
  size_t i, from, count, kept = 0, length;
  char utf8[4];
  for (at = text; at < end; at += length) {
    length = tok__char(at, &c);
    if (c < TOK__FLAT && w->t->classes[c] & TOK__MOVES) break;
  }
  to->size = 0;
  if (at == end) return tok__put(&w->room, to, text, n);
  w->chars.size = 0;
  for (at = text; at < end;) {
    at += tok__char(at, &c);
    if (!tok__put_parts(w, c)) return 0;
  }
  chars = (uint32_t *)w->chars.at;
  count = w->chars.size / sizeof *chars;
  for (from = i = 0; i <= count; i++) {
    if (i < count && chars[i] >> 24) continue;
    if (i - from > 1 && !tok__sort_marks(w, chars + from, i - from)) return 0;
    from = i + 1;
  }
  for (i = 0; i < count; i++) {
    const uint32_t order = chars[i] >> 24, before = kept ? chars[kept - 1] >> 24 : 0;
    uint32_t joined = 0;
    c = chars[i] & 0xffffff;
    if (start && (start == chars + kept - 1 || before < order))
      joined = tok__joined(w->t, *start, c);
    if (joined) {
      *start = joined;
      continue;
    }
    if (!order) start = chars + kept;
    chars[kept++] = chars[i];
  }
  for (i = 0; i < kept; i++) {
    length = tok__put_char(utf8, chars[i] & 0xffffff);
    if (!tok__put(&w->room, to, utf8, length)) return 0;
  }
  return 1;
}

static int tok__replace(tok__room *r, const char *text, size_t n, const char *from,
                        const char *with, tok__buffer *to) {
  const size_t m = strlen(from), k = strlen(with);
  const char *end = text + n;
  while (text < end) {
    const char *next = (const char *)memchr(text, from[0], (size_t)(end - text));
    if (!next) next = end;
    if (!tok__put(r, to, text, (size_t)(next - text))) return 0;
    text = next;
    if ((size_t)(end - text) >= m && memcmp(text, from, m) == 0) {
      if (!tok__put(r, to, with, k)) return 0;
      text += m;
    } else if (text < end && !tok__put(r, to, text++, 1)) {
      return 0;
    }
  }
  return 1;
}

/* Let the normalizers change a text: what comes out lies in w until the next call. */
static int tok__normalize(tok__work *w, const char **text, size_t *n) {
  int i;
  for (i = 0; i < w->t->normals; i++) {
    const tok__step *step = w->t->normal + i;
    tok__buffer *to = &w->normal[i & 1];
    to->size = 0;
    if (step->kind == TOK__NFC ? !tok__nfc(w, *text, *n, to)
        : step->kind == TOK__PREPEND
            ? (*n && !tok__put(&w->room, to, step->to, strlen(step->to))) ||
                  !tok__put(&w->room, to, *text, *n)
            : !tok__replace(&w->room, *text, *n, step->from, step->to, to)) return 0;
    *text = to->size ? to->at : "";
    *n = to->size;
  }
  return 1;
}

/* ---- a text at work: pieces ---- */

/* What a splitting expression is: how many numbers stand together, and whether marks go with
 * letters. */
static const struct { const char *name, *text; int numbers, marks; } tok__splits[] = {
  {"gpt2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", 0,
   0},
  {"llama3", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", 3, 0},
  {"qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", 1, 0},
  {"qwen35", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
   " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", 1, 1}};
enum { TOK__SPLITS = sizeof tok__splits / sizeof tok__splits[0] };

/* What GGUF calls them; the last of these split digits off first, those of Llama 3 ignore merges
 * and begin texts with bos. */
static const struct { const char *names; int rule, digits, llama3; } tok__pres[] = {
  {"gpt-2 phi-2 olmo mpt modern-bert", 0, 0, 0},
  {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 lfm2", 1, 0, 1},
  {"dbrx smaug-bpe", 1, 0, 0},
  {"qwen2 deepseek-r1-qwen", 2, 0, 0},
  {"qwen35", 3, 0, 0},
  {"smollm starcoder refact command-r codeshell", 0, 1, 0}};
enum { TOK__PRES = sizeof tok__pres / sizeof tok__pres[0] };

/* The class at p, where there is one, and the place behind the character. */
static int tok__kind(const tok__work *w, const char *p, const char *end, const char **next) {
  uint32_t c;
  if (p == end) {
    *next = p;
    return -1;
  }
  *next = p + tok__char(p, &c);
  return tok__class(w->t, c);
}

/* Which of a splitting expression's kinds a class is: letters, numbers, space, or the rest. */
static int tok__group(int kind, int marks) {
  return kind == TOK__LETTER || (marks && kind == TOK__MARK) ? TOK__LETTER
         : kind == TOK__NUMBER || kind == TOK__NO_WORD       ? TOK__NUMBER
         : kind == TOK__SPACE || kind < 0                    ? kind
                                                             : TOK__OTHER;
}

/* The end of the run of a group that begins at p, of at most `most` characters; 0: any. */
static const char *tok__run(const tok__work *w, const char *p, const char *end, int group,
                            int marks, int most) {
  const char *next;
  int n = 0;
  while ((!most || n++ < most) && tok__group(tok__kind(w, p, end, &next), marks) == group)
    p = next;
  return p;
}

/* An apostrophe and what it shortens, or p. Where case is ignored, U+017F is an s as well. */
static const char *tok__short(const char *p, const char *end, int any_case) {
  static const char twos[] = "revell", ones[] = "stmd";
  const size_t n = (size_t)(end - p);
  char a, b;
  int i;
  if (*p != '\'' || n < 2) return p;
  if (any_case && n > 2 && memcmp(p + 1, "\xc5\xbf", 2) == 0) return p + 3;
  a = any_case && p[1] >= 'A' && p[1] <= 'Z' ? (char)(p[1] + 32) : p[1];
  for (i = 0; i < 4; i++)
    if (a == ones[i]) return p + 2;
  if (n < 3) return p;
  b = any_case && p[2] >= 'A' && p[2] <= 'Z' ? (char)(p[2] + 32) : p[2];
  for (i = 0; i < 6; i += 2)
    if (a == twos[i] && b == twos[i + 1]) return p + 3;
  return p;
}

/* A run of space: up to its last line end if `lines`, else without its last character if something
 * follows that it can stand before. */
static const char *tok__spaces(const tok__work *w, const char *p, const char *end, int lines) {
  const char *last = p, *line = NULL, *at = p, *next;
  while (tok__kind(w, at, end, &next) == TOK__SPACE) {
    if (*at == '\n' || *at == '\r') line = next;
    last = at;
    at = next;
  }
  return lines && line ? line : at == end || last == p ? at : last;
}

/* The end of the piece that a splitting expression finds at p, which is before end: its
 * alternatives from left to right. */
static const char *tok__piece(const tok__work *w, int rule, const char *p, const char *end) {
  const int numbers = tok__splits[rule].numbers, marks = tok__splits[rule].marks;
  const char *next, *stop = tok__short(p, end, numbers > 0);
  const int first = tok__group(tok__kind(w, p, end, &next), marks);
  if (stop > p) return stop;
  if (first == TOK__LETTER) return tok__run(w, p, end, TOK__LETTER, marks, 0);
  if (first == TOK__NUMBER) return tok__run(w, p, end, TOK__NUMBER, marks, numbers);
  if (numbers ? *p != '\n' && *p != '\r' : *p == ' ') {   /* one character before letters */
    stop = tok__run(w, next, end, TOK__LETTER, marks, 0);
    if (stop > next) return stop;
  }
  if (!numbers && *p == ' ') {
    stop = tok__run(w, next, end, TOK__NUMBER, marks, 0);
    if (stop > next) return stop;
  }
  if (first == TOK__OTHER || *p == ' ') {
    const char *from = first == TOK__OTHER ? p : next;
    stop = tok__run(w, from, end, TOK__OTHER, marks, 0);
    if (stop > from) {
      while (numbers && stop < end && (*stop == '\n' || *stop == '\r')) stop++;
      return stop;
    }
  }
  return tok__spaces(w, p, end, numbers > 0);
}

/* ---- a text at work: merges ---- */

/* A part of a piece. Symbols of a piece are a list by `next`; of scores a symbol lies at its first
 * byte. */
typedef struct tok__symbol {
  uint32_t id, before, next, rank;   /* rank: of merging it with the next one                     */
} tok__symbol;

/* The rank of merging symbol i with the one behind it, and what that gives. */
static uint32_t tok__rank(const tok__work *w, const char *piece, size_t n, uint32_t i,
                          uint32_t *to) {
  const tok__symbol *s = (const tok__symbol *)w->symbols.at;
  const uint32_t next = s[i].next;
  if (next == TOK__NONE) return TOK__NONE;
  if (w->t->kind == TOK__SCORES) {
    const size_t end = s[next].next == TOK__NONE ? n : s[next].next;
    const uint32_t id = tok__find_model(w->t, piece + i, end - i);
    if (id == TOK__NONE) return TOK__NONE;
    *to = id;
    return tok__tokens(w->t)[id].rank;
  } else {
    const tok__pair *p = tok__pair_find(w->t, &w->t->merges, s[i].id, s[next].id);
    if (!p) return TOK__NONE;
    *to = p->to;
    return p->rank;
  }
}

/* A heap of four children a node, the lowest rank on top, and of equal ranks the first place. */
static void tok__heap_down(uint64_t *heap, size_t n, size_t at) {
  const uint64_t moved = heap[at];
  for (;;) {
    size_t i, best = 4 * at + 1;
    const size_t end = best + 4 < n ? best + 4 : n;
    if (best >= n) break;
    for (i = best + 1; i < end; i++)
      if (heap[i] < heap[best]) best = i;
    if (heap[best] >= moved) break;
    heap[at] = heap[best];
    at = best;
  }
  heap[at] = moved;
}

static int tok__heap_put(tok__work *w, uint64_t key) {
  uint64_t *heap;
  size_t at = w->heap.size / sizeof key;
  if (!tok__put(&w->room, &w->heap, &key, sizeof key)) return 0;
  heap = (uint64_t *)w->heap.at;
  for (; at && heap[(at - 1) / 4] > key; at = (at - 1) / 4) heap[at] = heap[(at - 1) / 4];
  heap[at] = key;
  return 1;
}

/* Merge symbol i with the next one into a token. */
static void tok__join(tok__work *w, uint32_t i, uint32_t id) {
  tok__symbol *s = (tok__symbol *)w->symbols.at;
  const uint32_t gone = s[i].next;
  s[i].id = id;
  s[i].next = s[gone].next;
  s[gone].rank = TOK__NONE;
  if (s[i].next != TOK__NONE) s[s[i].next].before = i;
}

/* Merge what merges, always the pair of the lowest rank, and of several the first. Short pieces are
 * looked through each time; long ones have their pairs in a heap, where entries whose symbols have
 * changed are passed over. */
static int tok__merge(tok__work *w, const char *piece, size_t n, size_t count) {
  tok__symbol *s = (tok__symbol *)w->symbols.at;
  const int heaped = count > 24;
  uint32_t i, to = 0;
  size_t k;
  w->heap.size = 0;
  for (i = 0; i != TOK__NONE; i = s[i].next) {
    const uint64_t key = (uint64_t)(s[i].rank = tok__rank(w, piece, n, i, &to)) << 32 | i;
    if (heaped && s[i].rank != TOK__NONE && !tok__put(&w->room, &w->heap, &key, sizeof key))
      return 0;
  }
  for (k = w->heap.size / 8 / 4 + 1; heaped && k--;)
    if (k < w->heap.size / 8) tok__heap_down((uint64_t *)w->heap.at, w->heap.size / 8, k);
  for (;;) {
    uint32_t best = TOK__NONE, rank = TOK__NONE, around[2];
    if (heaped) {
      uint64_t *heap = (uint64_t *)w->heap.at;
      if (!w->heap.size) return 1;
      best = (uint32_t)heap[0];
      rank = (uint32_t)(heap[0] >> 32);
      w->heap.size -= sizeof *heap;
      heap[0] = heap[w->heap.size / sizeof *heap];
      if (w->heap.size) tok__heap_down(heap, w->heap.size / sizeof *heap, 0);
      if (s[best].rank != rank) continue;
    } else {
      for (i = 0; i != TOK__NONE; i = s[i].next)
        if (s[i].rank < rank) rank = s[i].rank, best = i;
      if (best == TOK__NONE) return 1;
    }
    tok__rank(w, piece, n, best, &to);
    tok__join(w, best, to);
    around[0] = s[best].before;
    around[1] = best;
    for (k = 0; k < 2; k++) {
      if (around[k] == TOK__NONE) continue;
      rank = tok__rank(w, piece, n, around[k], &to);
      s[around[k]].rank = rank;
      if (heaped && rank != TOK__NONE && !tok__heap_put(w, (uint64_t)rank << 32 | around[k]))
        return 0;
    }
  }
}

static void tok__symbol_put(tok__work *w, uint32_t id, uint32_t *last, uint32_t at) {
  tok__symbol *s = (tok__symbol *)w->symbols.at;
  s[at].id = id;
  s[at].before = *last;
  s[at].next = s[at].rank = TOK__NONE;
  if (*last != TOK__NONE) s[*last].next = at;
  *last = at;
}

/* The symbols of a piece as the library has them: its characters (in a byte-level vocabulary its
 * bytes), for those without a token their bytes' tokens, and else the unknown one, or nothing. */
static size_t tok__symbols(tok__work *w, const char *piece, size_t n) {
  const miras_tokenizer *t = w->t;
  uint32_t last = TOK__NONE, waits = TOK__NONE, count = 0, c;
  size_t at, length, i;
  for (at = 0; at < n; at += length) {
    char letter[4];
    const char *text = piece + at;
    size_t size;
    uint32_t id = t->bytes[(unsigned char)*text];
    length = t->byte_level ? 1 : tok__char(text, &c);
    if (length > 1) id = tok__find_model(t, text, length);
    if (id != TOK__NONE) {
      if (waits != TOK__NONE) tok__symbol_put(w, waits, &last, count++);
      waits = TOK__NONE;
      tok__symbol_put(w, id, &last, count++);
      continue;
    }
    size = length;
    if (t->byte_level) {
      size = tok__put_char(letter, tok__letter_of((unsigned char)*text));
      text = letter;
    }
    for (i = 0; t->use_fallback && i < size; i++)
      if (t->fallback[(unsigned char)text[i]] == TOK__NONE) break;
    if (t->use_fallback && i == size) {
      for (i = 0; i < size; i++)
        tok__symbol_put(w, t->fallback[(unsigned char)text[i]], &last, count++);
    } else if (t->unknown != TOK__NONE) {
      if (waits != TOK__NONE && !t->fuse) tok__symbol_put(w, waits, &last, count++);
      waits = t->unknown;
    }
  }
  if (waits != TOK__NONE) tok__symbol_put(w, waits, &last, count++);
  return count;
}

/* The symbols of scores: characters, whether they are tokens or not. */
static size_t tok__symbols_of_scores(tok__work *w, const char *piece, size_t n) {
  uint32_t last = TOK__NONE, c;
  size_t at, length, count = 0;
  for (at = 0; at < n; at += length, count++) {
    length = tok__char(piece + at, &c);
    tok__symbol_put(w, TOK__NONE, &last, (uint32_t)at);
  }
  return count;
}

/* A symbol of scores that no merge has made is a token by itself, or its bytes are. */
static void tok__emit_score(tok__work *w, const char *text, size_t n) {
  const uint32_t id = tok__find_model(w->t, text, n);
  size_t i;
  if (id != TOK__NONE) {
    tok__emit(w, id);
    return;
  }
  for (i = 0; i < n; i++)
    if (w->t->fallback[(unsigned char)text[i]] == TOK__NONE) break;
  if (i < n) {
    if (w->t->unknown != TOK__NONE) tok__emit(w, w->t->unknown);
    return;
  }
  for (i = 0; i < n; i++) tok__emit(w, w->t->fallback[(unsigned char)text[i]]);
}

/* The tokens of a piece. */
static int tok__model(tok__work *w, const char *piece, size_t n) {
  const miras_tokenizer *t = w->t;
  const tok__symbol *s;
  size_t count, i;
  uint32_t k;
  if (t->ignore_merges) {
    const char *text = piece;
    size_t size = n;
    w->word.size = 0;
    for (i = 0; t->byte_level && i < n; i++) {
      char letter[4];
      size = tok__put_char(letter, tok__letter_of((unsigned char)piece[i]));
      if (!tok__put(&w->room, &w->word, letter, size)) return 0;
    }
    if (t->byte_level) text = w->word.at, size = w->word.size;
    k = tok__find_model(t, text, size);
    if (k != TOK__NONE) return tok__emit(w, k), 1;
  }
  if (n > (TOK__NONE - 1) / (1 + (size_t)t->use_fallback))   /* symbols have 32 bits */
    return TOK__STOP(&w->room, MIRAS_ERR_SIZE, "a piece of the text is too long");
  w->symbols.size = 0;   /* two of a byte whose letter falls back */
  if (!tok__reserve(&w->room, &w->symbols,
                    (n * (size_t)(1 + t->use_fallback) + 1) * sizeof(tok__symbol))) return 0;
  count = t->kind == TOK__SCORES ? tok__symbols_of_scores(w, piece, n)
                                 : tok__symbols(w, piece, n);
  if (!count) return 1;
  if (count > 1 && !tok__merge(w, piece, n, count)) return 0;
  s = (const tok__symbol *)w->symbols.at;
  for (k = 0; k != TOK__NONE; k = s[k].next)
    if (t->kind != TOK__SCORES) tok__emit(w, s[k].id);
    else tok__emit_score(w, piece + k, (s[k].next == TOK__NONE ? n : s[k].next) - k);
  return 1;
}

/* ---- a text at work: all of it ---- */

/* The piece at p that a step makes: its end. */
static const char *tok__step_piece(const tok__work *w, const tok__step *step, const char *p,
                                   const char *end) {
  const char *next;
  int kind;
  if (step->kind == TOK__SPLIT || (step->kind == TOK__BYTE_LEVEL && step->split))
    return tok__piece(w, step->rule, p, end);
  if (step->kind == TOK__METASPACE && step->split) {
    const size_t n = strlen(step->to);
    for (next = p + n; next < end && next > p; next++) {
      next = (const char *)memchr(next, step->to[0], (size_t)(end - next));
      if (!next) return end;
      if ((size_t)(end - next) >= n && memcmp(next, step->to, n) == 0) return next;
    }
    return end;
  }
  if (step->kind == TOK__DIGITS) {
    const int digit = (kind = tok__kind(w, p, end, &next)) == TOK__NUMBER ||
                      kind == TOK__NO_WORD || kind == TOK__DIGIT;
    if (digit && step->rule) return next;
    do {
      p = next;
      kind = tok__kind(w, p, end, &next);
    } while (kind >= 0 &&
             (kind == TOK__NUMBER || kind == TOK__NO_WORD || kind == TOK__DIGIT) == digit);
    return p;
  }
  return end;
}

/* Split a text by the steps from `at` on, and emit what the pieces are. begins: it is the text's
 * beginning. */
static int tok__pieces(tok__work *w, int at, const char *text, size_t n, int begins) {
  const tok__step *step = w->t->pre + at;
  const char *end;
  tok__buffer *own = &w->step[at];
  int more = 0;
  if (!n) return 1;
  if (at == w->t->pres) return tok__model(w, text, n);
  own->size = 0;
  if (step->kind == TOK__METASPACE) {
    const size_t m = strlen(step->to);
    if (!tok__put(&w->room, own, step->to, m) ||
        !tok__replace(&w->room, text, n, " ", step->to, own)) return 0;
    more = step->prefix && (!step->first || begins) &&
           !(own->size >= 2 * m && memcmp(own->at + m, step->to, m) == 0);
    text = more ? own->at : own->at + m;
    n = more ? own->size : own->size - m;
  } else if (step->kind == TOK__BYTE_LEVEL && step->prefix && *text != ' ') {
    if (!tok__put(&w->room, own, " ", 1) || !tok__put(&w->room, own, text, n)) return 0;
    text = own->at;
    n = own->size;
  }
  for (end = text + n; text < end;) {
    const char *stop = tok__step_piece(w, step, text, end);
    if (!tok__pieces(w, at + 1, text, (size_t)(stop - text), begins)) return 0;
    begins = 0;
    text = stop;
  }
  return 1;
}

/* Is the character a part of a word: \w of Rust's expressions? */
static int tok__is_word(const tok__work *w, const char *p, const char *end) {
  const char *next;
  const int kind = tok__kind(w, p, end, &next);
  return kind == TOK__LETTER || kind == TOK__NUMBER || kind == TOK__MARK || kind == TOK__WORD;
}

static const char *tok__char_before(const char *p, const char *start) {
  if (p > start) p--;
  while (p > start && (*p & 0xc0) == 0x80) p--;
  return p;
}

/* Find the added tokens of a text, first those that are looked for before it is normalized (root
 * 0), and in what is between these the others, and emit all. */
static int tok__segments(tok__work *w, uint32_t root, const char *text, size_t n, int begins) {
  const miras_tokenizer *t = w->t;
  const char *end = text + n, *from = text, *at = text, *spaces = text, *next;
  while (at <= end) {
    size_t length = 0;
    uint32_t id = TOK__NONE;
    const char *start = at, *stop;
    int flags = 0;
    if (at < end) {
      if (t->first[root][(unsigned char)*at])
        id = tok__tree_longest(t, root, at, end, &length);
      if (id == TOK__NONE) {
        at++;
        continue;
      }
      flags = (int)tok__tokens(t)[id].flags;
      stop = at + length;
      at = stop;
      if ((w->flags & MIRAS_TOKENIZER_PLAIN && flags & TOK__SPECIAL) ||
          (flags & TOK__ALONE &&
           ((start > text && tok__is_word(w, tok__char_before(start, text), end)) ||
            tok__is_word(w, stop, end)))) continue;
      if (flags & TOK__LEFT) {
        while (start > from &&
               tok__kind(w, tok__char_before(start, text), end, &next) == TOK__SPACE)
          start = tok__char_before(start, text);
        if (start < from) start = from;
      }
      if (flags & TOK__RIGHT) {   /* up to `spaces` there are only such, as was seen before */
        if (stop < spaces) stop = spaces;
        while (tok__kind(w, stop, end, &next) == TOK__SPACE) stop = next;
        spaces = stop;
      }
    } else {
      start = stop = end;
      at++;
    }
    if (from < start) {
      const char *part = from;
      size_t size = (size_t)(start - from);
      const int first = begins && from == text;
      if (root ? !tok__pieces(w, 0, part, size, first)
               : !tok__normalize(w, &part, &size) || !tok__segments(w, 1, part, size, first))
        return 0;
    }
    if (id != TOK__NONE) tok__emit(w, id);
    from = stop;
  }
  return 1;
}

/* The text with U+FFFD for what is no UTF-8. */
static int tok__repair(tok__work *w, const char **text, size_t *n) {
  const char *at = *text, *end = at + *n;
  while (at < end) {
    const size_t good = tok__valid_count(at, (size_t)(end - at));
    int whole;
    if (!tok__put(&w->room, &w->valid, at, good)) return 0;
    at += good;
    if (at == end) break;
    at += tok__valid((const unsigned char *)at, (const unsigned char *)end, &whole);
    if (!tok__put(&w->room, &w->valid, "\xef\xbf\xbd", 3)) return 0;
  }
  *text = w->valid.at;
  *n = w->valid.size;
  return 1;
}

/* RWKV's: the longest token at the beginning, and so on. */
static int tok__longest(tok__work *w, const char *text, size_t n) {
  const char *end = text + n;
  size_t length = 0;
  for (; text < end; text += length) {
    const uint32_t id = tok__tree_longest(w->t, 0, text, end, &length);
    if (id == TOK__NONE)
      return TOK__STOP(&w->room, MIRAS_ERR_ARGUMENT,
                       "the vocabulary has no token for byte %d of the text",
                       (unsigned char)*text);
    tok__emit(w, id);
  }
  return 1;
}

/* ---- reading JSON ---- */

/* A cursor over valid UTF-8. After a violation, bad is 1 and at is end, so every loop runs out. */
typedef struct tok__json {
  const char *at, *end;
  int bad;
} tok__json;

enum { TOK__DEPTH = 64, TOK__FIELDS = 12, TOK__WORD_SIZE = 256 };

static int tok__refuse(tok__json *j) {
  j->bad = 1;
  j->at = j->end;
  return 0;
}

/* The next character that is no white space, or 0 at the end. */
static int tok__look(tok__json *j) {
  while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r'))
    j->at++;
  return j->at < j->end ? (unsigned char)*j->at : 0;
}

static int tok__take(tok__json *j, int c) {
  if (tok__look(j) != c) return 0;
  j->at++;
  return 1;
}

static int tok__need(tok__json *j, int c) { return tok__take(j, c) || tok__refuse(j); }

static uint32_t tok__need_hex(tok__json *j) {
  uint32_t c = 0;
  int i;
  for (i = 0; i < 4; i++) {
    static const char hex[] = "0123456789abcdefABCDEF";
    const char *digit = j->at < j->end && *j->at ? strchr(hex, *j->at) : NULL;
    if (!digit) return (uint32_t)tok__refuse(j);
    c = c << 4 | (uint32_t)(digit - hex - (digit - hex > 15 ? 6 : 0));
    j->at++;
  }
  return c;
}

/* What stands behind a backslash, as UTF-8: its length, 0 for none. Half of a pair is none. */
static size_t tok__need_escape(tok__json *j, char *to) {
  static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
  const char *known = j->at < j->end && *j->at ? strchr(names, *j->at) : NULL;
  uint32_t c, low;
  if (known) {
    j->at++;
    *to = means[known - names];
    return 1;
  }
  if (j->at == j->end || *j->at++ != 'u') return (size_t)tok__refuse(j);
  c = tok__need_hex(j);
  if (c >= 0xdc00 && c < 0xe000) return (size_t)tok__refuse(j);
  if (c >= 0xd800 && c < 0xdc00) {
    if (j->end - j->at < 6 || j->at[0] != '\\' || j->at[1] != 'u') return (size_t)tok__refuse(j);
    j->at += 2;
    low = tok__need_hex(j);
    if (low < 0xdc00 || low > 0xdfff) return (size_t)tok__refuse(j);
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  return j->bad ? 0 : tok__put_char(to, c);
}

/* Append a string to b, or pass over it if b is NULL. */
static int tok__need_string(tok__room *r, tok__json *j, tok__buffer *b) {
  if (!tok__need(j, '"')) return 0;
  for (;;) {
    const char *from = j->at;
    char c[4];
    size_t n;
    while (j->at < j->end && *j->at != '"' && *j->at != '\\' && (unsigned char)*j->at >= 32)
      j->at++;
    if (b && !tok__put(r, b, from, (size_t)(j->at - from))) return tok__refuse(j);
    if (j->at == j->end || (unsigned char)*j->at < 32) return tok__refuse(j);
    if (*j->at++ == '"') return 1;
    n = tok__need_escape(j, c);
    if (!n || (b && !tok__put(r, b, c, n))) return tok__refuse(j);
  }
}

/* A string, cut off at TOK__WORD_SIZE - 1 bytes. */
static int tok__need_word(tok__json *j, char *to) {
  size_t n = 0;
  if (!tok__need(j, '"')) return 0;
  while (j->at < j->end && *j->at != '"') {
    char c[4];
    size_t k = 1, i;
    c[0] = *j->at++;
    if ((unsigned char)c[0] < 32) return tok__refuse(j);
    if (c[0] == '\\' && !(k = tok__need_escape(j, c))) return 0;
    for (i = 0; i < k; i++)
      if (n < TOK__WORD_SIZE - 1) to[n++] = c[i];
  }
  to[n] = 0;
  return tok__need(j, '"');
}

/* The next item of a list, or member of an object, whose name goes to `name`: 1, and 0 at the end.
 * *seen counts them from 0. */
static int tok__next(tok__json *j, int close, int *seen, char *name) {
  if (tok__take(j, close)) return 0;
  if (*seen && !tok__need(j, ',')) return 0;
  *seen = 1;
  if (name && (!tok__need_word(j, name) || !tok__need(j, ':'))) return 0;
  return !j->bad;
}

/* Pass over any value. */
static int tok__skip(tok__json *j, int depth) {
  const int c = tok__look(j);
  int seen = 0;
  if (depth > TOK__DEPTH) return tok__refuse(j);
  if (c == '"') return tok__need_string(NULL, j, NULL);
  if (c == '{' || c == '[') {
    const int close = c == '{' ? '}' : ']';
    j->at++;
    while (!tok__take(j, close)) {
      if (seen && !tok__need(j, ',')) return 0;
      seen = 1;
      if (c == '{' && (!tok__need_string(NULL, j, NULL) || !tok__need(j, ':'))) return 0;
      if (!tok__skip(j, depth + 1)) return 0;
    }
    return 1;
  }
  if (!c || !strchr("-0123456789tfn", c)) return tok__refuse(j);
  while (j->at < j->end && *j->at && strchr("+-.0123456789eEtrufalsn", *j->at)) j->at++;
  return 1;
}

/* Pass over an object: where the members of `names`, with blanks between, have their values. What
 * is not there begins at NULL. An object that is null has none. */
static int tok__fields(tok__json *j, const char *names, tok__json *fields) {
  char name[TOK__WORD_SIZE];
  int seen = 0, i;
  memset(fields, 0, TOK__FIELDS * sizeof *fields);
  if (tok__look(j) == 'n') return tok__skip(j, 0);
  tok__need(j, '{');
  while (!j->bad && tok__next(j, '}', &seen, name)) {
    const char *at = names;
    tok__look(j);
    for (i = 0; *at; i++) {
      const size_t n = strcspn(at, " ");
      if (n == strlen(name) && memcmp(at, name, n) == 0) fields[i] = *j;
      at += n + (at[n] == ' ');
    }
    if (!tok__skip(j, 0)) return 0;
  }
  return !j->bad;
}

static int tok__is_null(const tok__json *field) { return !field->at || *field->at == 'n'; }

/* A truth, or what it is where it is missing. */
static int tok__flag(const tok__json *field, int missing) {
  return tok__is_null(field) ? missing : *field->at == 't';
}

/* The string of a field into to[TOK__WORD_SIZE]; "" if it is none. */
static const char *tok__word(const tok__json *field, char *to) {
  tok__json j = *field;
  to[0] = 0;
  if (j.at && tok__look(&j) == '"') tok__need_word(&j, to);
  return to;
}

/* A whole number below TOK__NONE. */
static uint32_t tok__need_id(tok__json *j) {
  uint32_t n = 0;
  int digits = 0;
  tok__look(j);
  for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++, digits++) {
    if (n > 0x7fffffff / 10 - 1) return (uint32_t)tok__refuse(j);
    n = 10 * n + (uint32_t)(*j->at - '0');
  }
  return digits ? n : (uint32_t)tok__refuse(j);
}

/* ---- tokenizer.json ---- */

/* Refuse what is not known: where, what it is, and what there is. */
static int tok__unknown(miras_tokenizer *t, const char *where, const char *what,
                        const char *known) {
  return TOK__STOP(&t->room, MIRAS_ERR_DESC, "%s is %.160s, which is not read here; it may be %s",
                   where, what[0] ? what : "of no type", known);
}

static int tok__bad_json(miras_tokenizer *t, const char *where) {
  return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "%s: this is no JSON as tokenizer.json has it",
                   where);
}

/* Copy a word that fits into 16 bytes. */
static int tok__short_word(miras_tokenizer *t, const char *where, const char *word, char *to) {
  if (strlen(word) > 15) return tok__unknown(t, where, word, "a text of at most 15 bytes");
  memcpy(to, word, strlen(word) + 1);
  return 1;
}

/* Each item of a list that is the value of a field. */
static int tok__items(miras_tokenizer *t, const tok__json *field, int depth,
                      int (*read)(miras_tokenizer *t, tok__json *item, int depth)) {
  tok__json j = *field;
  int seen = 0;
  if (tok__is_null(field)) return 1;
  if (!tok__need(&j, '[')) return tok__bad_json(t, "what should be a list");
  if (depth > 3) return TOK__STOP(&t->room, MIRAS_ERR_DESC, "sequences stand in sequences, deeply");
  while (tok__next(&j, ']', &seen, NULL)) {
    tok__json item = j;
    if (!tok__skip(&j, 0) || !read(t, &item, depth + 1)) return 0;
  }
  return 1;
}

static tok__step *tok__step_new(miras_tokenizer *t, tok__step *steps, int *count, int kind) {
  tok__step *step = steps + *count;
  if (*count == TOK__STEPS) {
    tok__say(&t->room, MIRAS_ERR_DESC, "a sequence has more than %d steps", TOK__STEPS);
    return NULL;
  }
  memset(step, 0, sizeof *step);
  step->kind = kind;
  ++*count;
  return step;
}

static int tok__normalizer(miras_tokenizer *t, tok__json *j, int depth) {
  char type[TOK__WORD_SIZE], word[TOK__WORD_SIZE];
  tok__json f[TOK__FIELDS], p[TOK__FIELDS];
  tok__step *step;
  if (tok__look(j) == 'n') return 1;
  if (!tok__fields(j, "type normalizers prepend pattern content", f))
    return tok__bad_json(t, "normalizer");
  tok__word(&f[0], type);
  if (strcmp(type, "Sequence") == 0) return tok__items(t, &f[1], depth, tok__normalizer);
  if (strcmp(type, "NFC") == 0)
    return tok__step_new(t, t->normal, &t->normals, TOK__NFC) && tok__marks_open(t);
  if (strcmp(type, "Prepend") == 0) {
    step = tok__step_new(t, t->normal, &t->normals, TOK__PREPEND);
    return step && tok__short_word(t, "normalizer.prepend", tok__word(&f[2], word), step->to);
  }
  if (strcmp(type, "Replace") == 0 && f[3].at && tok__fields(&f[3], "String", p) && p[0].at) {
    step = tok__step_new(t, t->normal, &t->normals, TOK__REPLACE);
    return step &&
           tok__short_word(t, "normalizer.pattern", tok__word(&p[0], word), step->from) &&
           (step->from[0] || tok__unknown(t, "normalizer.pattern", "empty", "a text")) &&
           tok__short_word(t, "normalizer.content", tok__word(&f[4], word), step->to);
  }
  return tok__unknown(t, "normalizer", strcmp(type, "Replace") ? type : "Replace of a Regex",
                      "NFC, Prepend, Replace of a String, or a Sequence of these");
}

/* Refuse normalizers that multiply a text: by the product of what each may do. */
static int tok__growth_fits(miras_tokenizer *t) {
  double growth = 1;
  int i;
  for (i = 0; i < t->normals; i++) {
    const tok__step *step = t->normal + i;
    const size_t from = strlen(step->from), to = strlen(step->to);
    growth *= step->kind == TOK__NFC       ? 3   /* at most, in UTF-8 */
              : step->kind == TOK__PREPEND ? 1 + (double)to
              : to > from                  ? (double)((to + from - 1) / from) : 1;
  }
  return growth <= TOK__GROWTH ||
         TOK__STOP(&t->room, MIRAS_ERR_DESC, "normalizer may make a text %.0f times as long; read "
                   "here is what makes it at most %d times as long", growth, TOK__GROWTH);
}

static int tok__split_step(miras_tokenizer *t, tok__json *f) {
  char word[TOK__WORD_SIZE], how[TOK__WORD_SIZE];
  tok__json p[TOK__FIELDS];
  tok__step *step;
  int rule = 0, inverted;
  if (!f[2].at || !tok__fields(&f[2], "Regex String", p)) return tok__bad_json(t, "pre_tokenizer");
  tok__word(p[0].at ? &p[0] : &p[1], word);
  while (p[0].at && rule < TOK__SPLITS && strcmp(word, tok__splits[rule].text) != 0) rule++;
  if (!p[0].at || rule == TOK__SPLITS)
    return tok__unknown(t, "pre_tokenizer's Split", word,
                        "the expression of GPT-2, Llama 3, Qwen2 or Qwen3.5, letter for letter");
  inverted = tok__flag(&f[4], 0);   /* what the expression leaves between its pieces is nothing */
  tok__word(&f[3], how);
  if (strcmp(how, inverted ? "Removed" : "Isolated") != 0)
    return tok__unknown(t, "behavior of pre_tokenizer's Split", how,
                        "Isolated, or Removed and inverted");
  step = tok__step_new(t, t->pre, &t->pres, TOK__SPLIT);
  if (step) step->rule = rule;
  return step != NULL;
}

/* Metaspace has U+2581 in the place of blanks. */
static int tok__metaspace(miras_tokenizer *t, const tok__json *replacement) {
  char word[TOK__WORD_SIZE];
  return strcmp(tok__word(replacement, word), "\xe2\x96\x81") == 0 ||
         tok__unknown(t, "replacement of Metaspace", word, "U+2581");
}

static int tok__pre_tokenizer(miras_tokenizer *t, tok__json *j, int depth) {
  char type[TOK__WORD_SIZE], word[TOK__WORD_SIZE];
  tok__json f[TOK__FIELDS];
  tok__step *step;
  if (tok__look(j) == 'n') return 1;
  if (!tok__fields(j, "type pretokenizers pattern behavior invert add_prefix_space use_regex "
                   "individual_digits prepend_scheme split replacement", f))
    return tok__bad_json(t, "pre_tokenizer");
  tok__word(&f[0], type);
  if (strcmp(type, "Sequence") == 0) return tok__items(t, &f[1], depth, tok__pre_tokenizer);
  if (t->byte_level) return tok__unknown(t, "what follows ByteLevel in pre_tokenizer", type,
                                         "nothing");
  if (strcmp(type, "Split") == 0) return tok__split_step(t, f);
  if (strcmp(type, "ByteLevel") == 0) {
    step = tok__step_new(t, t->pre, &t->pres, TOK__BYTE_LEVEL);
    if (!step) return 0;
    step->prefix = tok__flag(&f[5], 1);
    step->split = tok__flag(&f[6], 1);
    return t->byte_level = 1;
  }
  if (strcmp(type, "Digits") == 0) {
    step = tok__step_new(t, t->pre, &t->pres, TOK__DIGITS);
    if (step) step->rule = tok__flag(&f[7], 0);
    return step != NULL;
  }
  if (strcmp(type, "Metaspace") == 0) {
    step = tok__step_new(t, t->pre, &t->pres, TOK__METASPACE);
    if (!step) return 0;
    if (!tok__metaspace(t, &f[10])) return 0;
    tok__word(&f[8], word);
    step->prefix = tok__flag(&f[5], 1) && strcmp(word, "never") != 0;
    step->first = strcmp(word, "first") == 0;
    step->split = tok__flag(&f[9], 1);
    memcpy(step->to, "\xe2\x96\x81", 4);
    return 1;
  }
  return tok__unknown(t, "pre_tokenizer", type,
                      "ByteLevel, Digits, Metaspace, Split, or a Sequence of these");
}

static int tok__post_processor(miras_tokenizer *t, tok__json *j, int depth) {
  char type[TOK__WORD_SIZE], name[TOK__WORD_SIZE], word[TOK__WORD_SIZE];
  tok__json f[TOK__FIELDS], item;
  int seen = 0, text = 0, pieces = 0;
  if (tok__look(j) == 'n') return 1;
  if (!tok__fields(j, "type processors single special_tokens", f))
    return tok__bad_json(t, "post_processor");
  tok__word(&f[0], type);
  if (strcmp(type, "Sequence") == 0) return tok__items(t, &f[1], depth, tok__post_processor);
  if (strcmp(type, "ByteLevel") == 0) return 1;
  if (strcmp(type, "TemplateProcessing") != 0 || t->befores || t->afters || !f[2].at)
    return tok__unknown(t, "post_processor", type,
                        "ByteLevel, one TemplateProcessing, or a Sequence of these");
  item = f[2];
  tok__need(&item, '[');
  while (!item.bad && tok__next(&item, ']', &seen, NULL)) {
    tok__json piece[TOK__FIELDS], in[TOK__FIELDS], tokens, ids[TOK__FIELDS];
    int more = 0, found = 0, each = 0;
    if (!tok__fields(&item, "Sequence SpecialToken", piece))
      return tok__bad_json(t, "post_processor");
    if (pieces++ > 2 * TOK__ENDS)
      return tok__unknown(t, "post_processor.single", "long", "of at most 8 tokens a side");
    if (!piece[1].at) {
      if (text++) return tok__unknown(t, "post_processor.single", "two Sequences", "one");
      continue;
    }
    tok__fields(&piece[1], "id", in);
    tok__word(&in[0], word);
    tokens = f[3];
    if (tokens.at) tok__need(&tokens, '{');
    while (tokens.at && tok__next(&tokens, '}', &more, name)) {
      uint32_t *to = text ? t->after : t->before;
      int *count = text ? &t->afters : &t->befores;
      if (!tok__fields(&tokens, "ids", ids)) break;
      if (found || strcmp(name, word) != 0 || !ids[0].at || !tok__need(&ids[0], '[')) continue;
      for (found = 1; tok__next(&ids[0], ']', &each, NULL);) {
        if (*count == TOK__ENDS)
          return tok__unknown(t, "post_processor.single", "long", "of at most 8 tokens a side");
        to[(*count)++] = tok__need_id(&ids[0]);
      }
      if (ids[0].bad) return tok__bad_json(t, "post_processor.special_tokens");
    }
    if (!found)
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT,
                       "post_processor.special_tokens has no ids of %.160s", word);
  }
  return item.bad ? tok__bad_json(t, "post_processor.single") : 1;
}

static int tok__decoder(miras_tokenizer *t, tok__json *j, int depth) {
  static const char known[] = "ByteLevel, Metaspace, or a Sequence of Replace, ByteFallback, Fuse "
                              "and Strip of one blank, in this order";
  char type[TOK__WORD_SIZE], word[TOK__WORD_SIZE];
  tok__json f[TOK__FIELDS], p[TOK__FIELDS];
  int shows = 0;
  if (!tok__fields(j, "type decoders pattern content start stop prepend_scheme add_prefix_space "
                   "replacement", f)) return tok__bad_json(t, "decoder");
  tok__word(&f[0], type);
  if (strcmp(type, "Sequence") == 0) return tok__items(t, &f[1], depth, tok__decoder);
  if (strcmp(type, "ByteLevel") == 0) shows = TOK__AS_BYTES;
  if (strcmp(type, "ByteFallback") == 0) shows = TOK__AS_FALLBACK;
  if (strcmp(type, "Fuse") == 0) shows = TOK__AS_FUSED;
  if (strcmp(type, "Metaspace") == 0) {
    if (!tok__metaspace(t, &f[8])) return 0;
    shows = t->shows ? 0 : TOK__AS_METASPACE;
    if (tok__flag(&f[7], 1) && strcmp(tok__word(&f[6], word), "never") != 0)
      t->shows |= TOK__AS_DROPPING;
  }
  if (strcmp(type, "Strip") == 0 && t->shows & TOK__AS_FUSED && f[4].at && f[5].at &&
      tok__need_id(&f[5]) == 0 && strcmp(tok__word(&f[3], word), " ") == 0) {
    shows = TOK__AS_STRIPPED;
    t->stripped = (int)tok__need_id(&f[4]);
  }
  if (strcmp(type, "Replace") == 0 && f[2].at && tok__fields(&f[2], "String", p) && p[0].at) {
    shows = TOK__AS_REPLACED;
    if (!tok__short_word(t, "decoder.pattern", tok__word(&p[0], word), t->shown_from) ||
        !tok__short_word(t, "decoder.content", tok__word(&f[3], word), t->shown_to)) return 0;
    if (!t->shown_from[0]) shows = 0;
  }
  if (!shows || shows <= (t->shows & ~TOK__AS_DROPPING) || (t->shows & TOK__AS_BYTES))
    return tok__unknown(t, "decoder", type, known);
  t->shows |= shows;
  return 1;
}

/* "vocab": {"text": id, ...} */
static int tok__vocab(miras_tokenizer *t, tok__json *j) {
  const size_t most = (size_t)(j->end - j->at);
  int seen = 0;
  if (!tok__need(j, '{')) return tok__bad_json(t, "model.vocab");
  while (!tok__take(j, '}')) {
    const size_t at = t->text.size;
    tok__token *token;
    uint32_t id;
    if (seen && !tok__need(j, ',')) break;
    seen = 1;
    tok__look(j);
    if (!tok__need_string(&t->room, j, &t->text) || !tok__need(j, ':')) break;
    id = tok__need_id(j);
    if (j->bad) break;
    if (id >= most)
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "model.vocab has an id of %lu, too high for "
                       "what is there", (unsigned long)id);
    if (tok__find(t, t->text.at + at, t->text.size - at) != TOK__NONE)
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "model.vocab has the token \"%.*s\" twice",
                       (int)(t->text.size - at < 100 ? t->text.size - at : 100),
                       t->text.at + at);
    token = tok__token_new(t, id);
    if (!token) return 0;
    token->flags |= TOK__MODEL;
    token->at = token->shown = (uint32_t)at;
    token->size = token->shown_size = (uint32_t)(t->text.size - at);
    if (!tok__index(t, id)) return 0;
  }
  return j->bad ? tok__bad_json(t, "model.vocab") : 1;
}

/* Add the merge of rank `rank`: "a b" has `cut` bytes, its blank, and the rest; both without a
 * blank between them lie in b, the first with `cut` bytes. */
static int tok__merge_add(miras_tokenizer *t, const tok__buffer *b, size_t cut, uint32_t rank) {
  const char *names[3];
  size_t sizes[3];
  uint32_t ids[3];
  tok__pair *p;
  int i;
  names[0] = names[2] = b->at;
  names[1] = b->at + cut;
  sizes[0] = cut;
  sizes[1] = b->size - cut;
  sizes[2] = b->size;
  for (i = 0; i < 3; i++) {
    ids[i] = tok__find(t, names[i], sizes[i]);
    if (ids[i] == TOK__NONE)
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "merge %lu is of \"%.*s\", which is no token",
                       (unsigned long)rank, (int)(sizes[i] < 100 ? sizes[i] : 100), names[i]);
  }
  p = tok__pair_make(t, &t->merges, ids[0], ids[1]);
  if (!p) return 0;
  p->rank = rank;
  p->to = ids[2];
  return 1;
}

/* Take the one blank out of "a b" in b, and say where it was. */
static int tok__merge_cut(miras_tokenizer *t, tok__buffer *b, uint32_t rank, size_t *cut) {
  const char *blank = (const char *)memchr(b->at, ' ', b->size);
  if (blank) {
    *cut = (size_t)(blank - b->at);
    memmove(b->at + *cut, b->at + *cut + 1, b->size - *cut - 1);
    b->size--;
  }
  if (!blank || memchr(b->at + *cut, ' ', b->size - *cut))
    return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "merge %lu is no two tokens with a blank between",
                     (unsigned long)rank);
  return 1;
}

/* "merges": ["a b", ...] or [["a", "b"], ...] */
static int tok__merges(miras_tokenizer *t, tok__json *j) {
  tok__buffer b = {NULL, 0, 0};
  uint32_t rank = 0;
  int seen = 0, good = tok__need(j, '[');
  while (good && tok__next(j, ']', &seen, NULL)) {
    size_t cut = 0;
    b.size = 0;
    if (tok__take(j, '[')) {
      good = tok__need_string(&t->room, j, &b);
      cut = b.size;
      good = good && tok__need(j, ',') && tok__look(j) && tok__need_string(&t->room, j, &b) &&
             tok__need(j, ']');
    } else {
      good = tok__need_string(&t->room, j, &b);
      if (good && b.size >= 8 && memcmp(b.at, "#version", 8) == 0) continue;
      good = good && (b.size || tok__bad_json(t, "model.merges")) &&
             tok__merge_cut(t, &b, rank, &cut);
    }
    good = good && tok__reserve(&t->room, &b, 1) && tok__merge_add(t, &b, cut, rank++);
  }
  tok__drop(&t->room, &b);
  return good && !j->bad ? 1 : tok__bad_json(t, "model.merges");
}

/* The tokens of single bytes and of <0x00> to <0xFF>. */
static void tok__bytes(miras_tokenizer *t) {
  unsigned i;
  for (i = 0; i < 256; i++) {
    char text[8];
    size_t n = 1;
    text[0] = (char)i;
    if (t->byte_level) n = tok__put_char(text, tok__letter_of(i));
    t->bytes[i] = tok__find(t, text, n);
    snprintf(text, sizeof text, "<0x%02X>", i);
    t->fallback[i] = tok__find(t, text, 6);
  }
}

static int tok__model_read(miras_tokenizer *t, tok__json *j) {
  char word[TOK__WORD_SIZE];
  tok__json f[TOK__FIELDS];
  int i;
  if (!tok__fields(j, "type vocab merges unk_token fuse_unk byte_fallback ignore_merges dropout "
                   "continuing_subword_prefix end_of_word_suffix", f) || !f[1].at || !f[2].at) {
    if (!j->bad && f[0].at && strcmp(tok__word(&f[0], word), "BPE") != 0)
      return tok__unknown(t, "model.type", word, "BPE");
    return tok__bad_json(t, "model, with vocab and merges");
  }
  if (f[0].at && strcmp(tok__word(&f[0], word), "BPE") != 0)
    return tok__unknown(t, "model.type", word, "BPE");
  if (!tok__is_null(&f[7]) && f[7].at[strspn(f[7].at, "0.")] > '0' &&
      f[7].at[strspn(f[7].at, "0.")] <= '9')
    return tok__unknown(t, "model.dropout", "above 0", "null or 0");
  for (i = 8; i < 10; i++)
    if (tok__word(&f[i], word)[0])
      return tok__unknown(t, i == 8 ? "model.continuing_subword_prefix"
                                    : "model.end_of_word_suffix", word, "null or empty");
  t->fuse = tok__flag(&f[4], 0);
  t->use_fallback = tok__flag(&f[5], 0);
  t->ignore_merges = tok__flag(&f[6], 0);
  if (!tok__vocab(t, &f[1]) || !tok__merges(t, &f[2])) return 0;
  tok__bytes(t);
  if (tok__is_null(&f[3])) return 1;
  tok__word(&f[3], word);
  t->unknown = tok__find(t, word, strlen(word));
  if (t->unknown == TOK__NONE)
    return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "model.unk_token is %.160s, which is no token",
                     word);
  return 1;
}

/* Add a token's text to those that are looked for in texts. */
static int tok__look_for(miras_tokenizer *t, uint32_t id, const char *text, size_t n, int flags) {
  const uint32_t root = flags & TOK__NORMAL ? 1 : 0;
  tok__tokens(t)[id].flags |= (uint32_t)flags | TOK__ADDED;
  if (!n) return 1;
  t->first[root][(unsigned char)text[0]] = 1;
  return tok__tree_add(t, root, text, n, id);
}

/* {"id": 5, "content": "...", ...}: of a token that the model has, or a new one behind it, as the
 * library numbers them. */
static int tok__added(miras_tokenizer *t, tok__json *j, int depth) {
  tok__json f[TOK__FIELDS];
  const size_t at = t->text.size;
  const char *text;
  tok__token *token;
  tok__work w;
  size_t n;
  uint32_t id, found;
  int flags, good;
  (void)depth;
  if (!tok__fields(j, "id content single_word lstrip rstrip normalized special", f) || !f[0].at ||
      !f[1].at) return tok__bad_json(t, "added_tokens");
  id = tok__need_id(&f[0]);
  tok__look(&f[1]);
  if (f[0].bad || !tok__need_string(&t->room, &f[1], &t->text))
    return tok__bad_json(t, "added_tokens");
  n = t->text.size - at;
  text = t->text.at + at;
  if (!n) return 1;
  if (at > TOK__MAX_TEXT) return TOK__STOP(&t->room, MIRAS_ERR_SIZE, "added_tokens are too long");
  found = tok__find(t, text, n);
  if (id != (found == TOK__NONE ? t->known : found))
    return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "added_tokens: \"%.*s\" has the id %lu, and not "
                     "the %lu that is its", (int)(n < 100 ? n : 100), text, (unsigned long)id,
                     (unsigned long)(found == TOK__NONE ? t->known : found));
  if (found == TOK__NONE) {
    token = tok__token_new(t, id);
    if (!token) return 0;
    token->at = token->shown = (uint32_t)at;
    token->size = token->shown_size = (uint32_t)n;
    if (!tok__index(t, id)) return 0;
  }
  flags = (tok__flag(&f[2], 0) ? TOK__ALONE : 0) | (tok__flag(&f[3], 0) ? TOK__LEFT : 0) |
          (tok__flag(&f[4], 0) ? TOK__RIGHT : 0) | (tok__flag(&f[5], 1) ? TOK__NORMAL : 0) |
          (tok__flag(&f[6], 0) ? TOK__SPECIAL : 0);
  if (!(flags & TOK__NORMAL) || !t->normals) return tok__look_for(t, id, text, n, flags);
  memset(&w, 0, sizeof w);
  w.t = t;
  w.room = t->room;
  good = tok__normalize(&w, &text, &n);
  if (good) {   /* it is decoded as the normalizers have made it */
    const size_t shown = t->text.size;
    tok__buffer made = {NULL, 0, 0};
    good = tok__put(&w.room, &made, text, n);
    t->room = w.room;
    good = good && tok__put(&t->room, &t->text, made.at, n) &&
           tok__look_for(t, id, made.at, n, flags);
    w.room = t->room;
    tok__drop(&w.room, &made);
    tok__tokens(t)[id].shown = (uint32_t)shown;
    tok__tokens(t)[id].shown_size = (uint32_t)n;
  }
  tok__work_close(&w);
  t->room = w.room;
  return good;
}

/* Of a byte-level vocabulary, tokens with other characters are what they say. */
static void tok__mark_raw(miras_tokenizer *t) {
  uint32_t id, c;
  for (id = 0; id < t->size; id++) {
    tok__token *token = tok__tokens(t) + id;
    const char *at = t->text.at + token->shown, *end = at + token->shown_size;
    while (at < end && !(token->flags & TOK__RAW)) {
      at += tok__char(at, &c);
      if (tok__byte_of(c) < 0) token->flags |= TOK__RAW;
    }
  }
}

static int tok__read_json(miras_tokenizer *t, const char *bytes, size_t n) {
  tok__json j, f[TOK__FIELDS];
  int i;
  j.at = bytes;
  j.end = bytes + n;
  j.bad = 0;
  if (!tok__fields(&j, "normalizer pre_tokenizer post_processor decoder model added_tokens", f) ||
      tok__look(&j) || j.at != j.end) return tok__bad_json(t, "the file");
  for (i = 0; i < TOK__ENDS; i++) t->before[i] = t->after[i] = TOK__NONE;
  if (!f[4].at) return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "there is no model");
  if ((f[0].at && (!tok__normalizer(t, &f[0], 0) || !tok__growth_fits(t))) ||
      (f[1].at && !tok__pre_tokenizer(t, &f[1], 0)) ||
      (f[2].at && !tok__post_processor(t, &f[2], 0))) return 0;
  if (tok__is_null(&f[3])) return tok__unknown(t, "decoder", "null", "one of a BPE model");
  if (!tok__decoder(t, &f[3], 0) || !tok__model_read(t, &f[4]) ||
      !tok__items(t, &f[5], 0, tok__added)) return 0;
  for (i = 0; i < t->befores + t->afters; i++) {
    const uint32_t id = i < t->befores ? t->before[i] : t->after[i - t->befores];
    if (id >= t->size || !(tok__tokens(t)[id].flags & TOK__KNOWN))
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "post_processor has the id %lu, which is no "
                       "token's", (unsigned long)id);
  }
  if (t->shows & TOK__AS_BYTES) tok__mark_raw(t);
  return 1;
}

/* ---- RWKV's vocabulary ---- */

/* What stands behind a backslash in a literal of Python, of text or of bytes, to UTF-8 or a byte;
 * its length, 0 for what is none. */
static size_t tok__literal_escape(const char **at, const char *end, int bytes, char *to) {
  static const char plain[] = "\\'\"nrt", means[] = "\\'\"\n\r\t", hex[] = "0123456789abcdef";
  const char *s = *at, *known = s < end && *s ? strchr(plain, *s) : NULL;
  uint32_t c = 0;
  int digits, i;
  if (s == end) return 0;
  digits = *s == 'x' ? 2 : *s == 'u' ? 4 : *s == 'U' ? 8 : 0;
  *at = ++s;
  if (known) return *to = means[known - plain], 1;
  if (!digits || (bytes && digits > 2)) return 0;
  for (i = 0; i < digits; i++, s++) {
    const char *digit = s < end && *s ? strchr(hex, *s) : NULL;
    if (!digit || c > 0x10ffff) return 0;
    c = 16 * c + (uint32_t)(digit - hex);
  }
  *at = s;
  if (c > 0x10ffff) return 0;
  if (bytes) return *to = (char)c, 1;
  return tok__put_char(to, c);
}

/* Append a literal's text up to the quote, or all of it if quote is 0, to t->text. */
static int tok__literal(miras_tokenizer *t, const char **at, const char *end, int bytes,
                        int quote) {
  while (*at < end && (!quote || (*(*at) != quote && *(*at) != '\n'))) {
    char c[4];
    size_t n = 1;
    c[0] = *(*at)++;
    if (c[0] == '\\' && !(n = tok__literal_escape(at, end, bytes, c))) return 0;
    if (!tok__put(&t->room, &t->text, c, n)) return 0;
  }
  return !quote || (*at < end && *(*at)++ == quote);
}

/* A token of the tree whose text was just put behind `at`. */
static int tok__tree_token(miras_tokenizer *t, uint32_t id, size_t at) {
  const size_t n = t->text.size - at;
  tok__token *token = tok__token_new(t, id);
  if (!token) return 0;
  token->at = token->shown = (uint32_t)at;
  token->size = token->shown_size = (uint32_t)n;
  return tok__index(t, id) && tok__tree_add(t, 0, t->text.at + at, n, id);
}

/* A number in a line, behind blanks: the place behind it, or NULL. */
static const char *tok__line_number(const char *at, const char *end, size_t *n) {
  const char *from;
  while (at < end && *at == ' ') at++;
  for (*n = 0, from = at; at < end && *at >= '0' && *at <= '9' && *n < TOK__MAX_FILE; at++)
    *n = 10 * *n + (size_t)(*at - '0');
  return at > from ? at : NULL;
}

/* Lines of id, literal and length. */
static int tok__read_lines(miras_tokenizer *t, const char *text, size_t size) {
  const char *at = text, *all = text + size;
  unsigned long line;
  t->kind = TOK__TREE;
  t->end = 0;
  for (line = 1; at < all; line++) {
    const char *end = (const char *)memchr(at, '\n', (size_t)(all - at)), *rest;
    const size_t from = t->text.size;
    size_t id, said, n;
    int bytes, quote;
    if (!end) end = all;
    rest = tok__line_number(at, end, &id);
    if (!rest || at[0] == ' ' || rest == end || *rest++ != ' ' || id >= size ||
        (id < t->size && tok__tokens(t)[id].flags & TOK__KNOWN))
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "line %lu: no id from 0 on that is new", line);
    bytes = rest < end && *rest == 'b';
    rest += bytes;
    quote = rest < end ? *rest++ : 0;
    if ((quote != '\'' && quote != '"') || !tok__literal(t, &rest, end, bytes, quote) ||
        t->text.size == from)
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "line %lu: no literal of Python", line);
    n = t->text.size - from;
    rest = tok__line_number(rest, end, &said);
    while (rest && rest < end && *rest == '\r') rest++;
    if (!rest || said != n || rest != end)
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT,
                       "line %lu: a token of %lu bytes is said to have another length", line,
                       (unsigned long)n);
    if (!tok__tree_token(t, (uint32_t)id, from)) return 0;
    at = end < all ? end + 1 : end;
  }
  return 1;
}

/* ---- arrays ---- */

/* Is the word in a list with blanks between? */
static int tok__in_list(const char *list, const char *word) {
  const size_t n = strlen(word);
  const char *at = list;
  for (; n && (at = strstr(at, word)) != NULL; at += n)
    if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return 1;
  return 0;
}

/* A score as a number that is the lower the better. */
static uint32_t tok__score_rank(float score) {
  const float clean = score + 0.0f;   /* of two zeros one */
  uint32_t bits;
  memcpy(&bits, &clean, sizeof bits);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return ~bits == TOK__NONE ? TOK__NONE - 1 : ~bits;
}

/* The tokens; types are those of llama.cpp: 1 normal, 2 unknown, 3 control, 4 written by the user,
 * 5 not used, 6 a byte. */
static int tok__array_tokens(miras_tokenizer *t, const miras_tokenizer_arrays *a) {
  uint32_t id;
  for (id = 0; id < a->count; id++) {
    const miras_tokenizer_text *from = a->tokens + id;
    const int type = a->token_type ? a->token_type[id] : 1;
    const size_t at = t->text.size;
    const char *text = from->at;
    tok__token *token;
    if (type < 1 || type > 6)
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "token_type of token %lu is %d; it goes from 1 "
                       "to 6", (unsigned long)id, type);
    if (from->size > TOK__MAX_TEXT - at)
      return TOK__STOP(&t->room, MIRAS_ERR_SIZE, "the tokens have more than 2^30 bytes");
    if (t->kind == TOK__TREE && type != 3) {
      if (!tok__literal(t, &text, text + from->size, 1, 0))
        return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "token %lu is no literal of Python",
                         (unsigned long)id);
      if (t->text.size > at && !tok__tree_token(t, id, at)) return 0;
      continue;
    }
    if (tok__valid_count(from->at, from->size) != from->size)
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "token %lu is not UTF-8", (unsigned long)id);
    token = tok__put(&t->room, &t->text, from->at, from->size) ? tok__token_new(t, id) : NULL;
    if (!token) return 0;
    token->at = token->shown = (uint32_t)at;
    token->size = token->shown_size = (uint32_t)from->size;
    if (type == 1 || (type == 4 && t->kind == TOK__SCORES)) token->flags |= TOK__MODEL;
    if (type != 1) token->flags |= TOK__RAW;
    if (a->scores) token->rank = tok__score_rank(a->scores[id]);
    if (t->kind == TOK__TREE) token->shown_size = 0;
    if (type != 5 && !tok__index(t, id)) return 0;
    if ((type == 3 || type == 4) && t->kind != TOK__TREE &&
        !tok__look_for(t, id, t->text.at + at, from->size, type == 3 ? TOK__SPECIAL : 0)) return 0;
  }
  return 1;
}

static int tok__array_merges(miras_tokenizer *t, const miras_tokenizer_arrays *a) {
  tok__buffer b = {NULL, 0, 0};
  uint32_t rank;
  int good = 1;
  for (rank = 0; good && rank < a->merge_count; rank++) {
    size_t cut = 0;
    b.size = 0;
    good = tok__put(&t->room, &b, a->merges[rank].at, a->merges[rank].size) &&
           tok__reserve(&t->room, &b, 1) && tok__merge_cut(t, &b, rank, &cut) &&
           tok__merge_add(t, &b, cut, rank);
  }
  tok__drop(&t->room, &b);
  return good;
}

static int tok__read_arrays(miras_tokenizer *t, const miras_tokenizer_arrays *a) {
  const char *pre = a->pre ? a->pre : "";
  tok__step *step;
  uint32_t ids[3];
  int i, k;
  ids[0] = (uint32_t)a->bos, ids[1] = (uint32_t)a->eos, ids[2] = (uint32_t)a->unknown;
  if (!a->model || !a->tokens || (a->merge_count && !a->merges) || a->count > TOK__MAX_FILE ||
      a->merge_count > TOK__MAX_FILE)
    return TOK__STOP(&t->room, MIRAS_ERR_ARGUMENT, "arrays are missing, or too long");
  t->kind = strcmp(a->model, "llama") == 0 ? TOK__SCORES
            : strcmp(a->model, "rwkv") == 0 ? TOK__TREE : TOK__BPE;
  if (t->kind == TOK__BPE && strcmp(a->model, "gpt2") != 0)
    return tok__unknown(t, "tokenizer.ggml.model", a->model, "gpt2, llama or rwkv");
  if (t->kind == TOK__SCORES && !a->scores)
    return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "tokenizer.ggml.scores is missing");
  for (i = 0; i < 3; i++)
    if (ids[i] != TOK__NONE && ids[i] >= a->count)
      return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "%s_token_id is %ld, which is no token's",
                       i ? i > 1 ? "unknown" : "eos" : "bos", (long)(int32_t)ids[i]);
  if (t->kind == TOK__BPE) {
    for (k = 0; k < TOK__PRES && !tok__in_list(tok__pres[k].names, pre);) k++;
    if (k == TOK__PRES)
      return tok__unknown(t, "tokenizer.ggml.pre", pre, "gpt-2, llama-bpe, dbrx, qwen2, qwen35, "
                          "smollm or another that splits as one of these");
    t->byte_level = 1;
    t->ignore_merges = tok__pres[k].llama3;
    t->shows = TOK__AS_BYTES;
    step = tok__pres[k].digits ? tok__step_new(t, t->pre, &t->pres, TOK__DIGITS) : NULL;
    if (step) step->rule = 1;
    step = tok__step_new(t, t->pre, &t->pres, TOK__SPLIT);
    if (step) step->rule = tok__pres[k].rule;
  } else if (t->kind == TOK__SCORES) {
    if (!a->no_space_prefix) {
      step = tok__step_new(t, t->normal, &t->normals, TOK__PREPEND);
      if (step) memcpy(step->to, "\xe2\x96\x81", 4);
    }
    step = tok__step_new(t, t->normal, &t->normals, TOK__REPLACE);
    if (step) memcpy(step->from, " ", 2), memcpy(step->to, "\xe2\x96\x81", 4);
    t->shows = TOK__AS_REPLACED | TOK__AS_FALLBACK;
    t->stripped = !a->no_space_prefix;
    memcpy(t->shown_from, "\xe2\x96\x81", 4);
    memcpy(t->shown_to, " ", 2);
  }
  t->unknown = ids[2];
  t->end = ids[1];
  if (ids[0] != TOK__NONE &&
      (a->add_bos < 0 ? t->kind == TOK__SCORES || t->ignore_merges : a->add_bos))
    t->before[t->befores++] = ids[0];
  if (ids[1] != TOK__NONE && a->add_eos) t->after[t->afters++] = ids[1];
  if (!tok__array_tokens(t, a) || (t->kind == TOK__BPE && !tok__array_merges(t, a))) return 0;
  if (t->byte_level) tok__mark_raw(t);
  if (t->kind != TOK__TREE) tok__bytes(t);
  if (t->kind == TOK__BPE) t->unknown = TOK__NONE;   /* as llama.cpp and the library have it */
  return 1;
}

/* ---- public calls ---- */

MIRAS_API void miras_tokenizer_close(miras_tokenizer *t) {
  tok__room room;
  if (!t) return;
  tok__drop(&t->room, &t->text);
  tok__drop(&t->room, &t->tokens);
  tok__drop(&t->room, &t->slots);
  tok__drop(&t->room, &t->merges.at);
  tok__drop(&t->room, &t->edges.at);
  tok__drop(&t->room, &t->marks.at);
  tok__release(&t->room, t->classes, TOK__FLAT);
  room = t->room;
  tok__release(&room, t, sizeof *t);
}

/* An empty vocabulary; NULL if there is no memory. */
static miras_tokenizer *tok__new(tok__room *r) {
  miras_tokenizer *t = (miras_tokenizer *)tok__alloc(r, sizeof *t);
  if (!t) return NULL;
  memset(t, 0, sizeof *t);
  t->room = *r;
  t->nodes = 2;
  t->unknown = t->end = TOK__NONE;
  /* the place in memory, so that no file can know which of its texts meet in a hash */
  t->seed = (uint64_t)(uintptr_t)t * UINT64_C(0x9e3779b97f4a7c15);
  memset(t->bytes, 0xff, sizeof t->bytes);
  memset(t->fallback, 0xff, sizeof t->fallback);
  if (tok__classes_open(t) && tok__reserve(&t->room, &t->text, 1)) return t;
  *r = t->room;
  miras_tokenizer_close(t);
  return NULL;
}

/* Hand out what was read, or say why it was not. */
static miras_tokenizer *tok__opened(miras_tokenizer *t, int good) {
  if (!good) tok__say(&t->room, MIRAS_ERR_FORMAT, "the file is damaged");
  t->room.why = NULL;
  if (good) return t;
  miras_tokenizer_close(t);
  return NULL;
}

/* The bytes of a file, which may be missing: 1; 0 after a refusal, -1 if it is missing. */
static int tok__file(tok__room *r, const char *path, const char *name, tok__buffer *b) {
  FILE *file = fopen(path, "rb");
  size_t got = 1;
  if (!file) return -1;
  while (got && r->result == MIRAS_OK) {
    if (b->size > TOK__MAX_FILE)
      tok__say(r, MIRAS_ERR_SIZE, "%s has more than 2^28 bytes", name);
    else if (tok__reserve(r, b, 1 << 16)) {
      got = fread(b->at + b->size, 1, b->room - b->size, file);
      b->size += got;
    }
  }
  if (ferror(file)) tok__say(r, MIRAS_ERR_IO, "%s cannot be read", name);
  fclose(file);
  return r->result == MIRAS_OK;
}

static int tok__read(miras_tokenizer *t, const char *bytes, size_t n) {
  size_t i;
  if (n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) bytes += 3, n -= 3;
  if (n >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0))
    return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "it is UTF-16; it must be UTF-8");
  for (i = 0; i < n && strchr(" \t\r\n", bytes[i]) && bytes[i];) i++;
  if (i == n) return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "it is empty");
  if (bytes[i] != '{') return tok__read_lines(t, bytes, n);
  i = tok__valid_count(bytes, n);
  if (i < n)
    return TOK__STOP(&t->room, MIRAS_ERR_FORMAT, "it is not UTF-8 at byte %lu", (unsigned long)i);
  return tok__read_json(t, bytes, n);
}

/* tokenizer_config.json beside it: "eos_token", a string or an object with it. */
static void tok__read_end(miras_tokenizer *t, const tok__buffer *config) {
  char word[TOK__WORD_SIZE];
  tok__json j, f[TOK__FIELDS], in[TOK__FIELDS];
  if (!config->size || tok__valid_count(config->at, config->size) < config->size) return;
  j.at = config->at;
  j.end = config->at + config->size;
  j.bad = 0;
  if (!tok__fields(&j, "eos_token", f) || !f[0].at) return;
  if (*f[0].at == '{' && tok__fields(&f[0], "content", in)) f[0] = in[0];
  if (f[0].at && tok__word(&f[0], word)[0]) t->end = tok__find(t, word, strlen(word));
}

MIRAS_API miras_tokenizer *miras_tokenizer_open_text(const char *bytes, size_t count,
                                                     uint64_t limit,
                                                     const miras_allocator *allocator, char *why,
                                                     size_t why_size) {
  miras_tokenizer *t;
  tok__room r;
  tok__room_init(&r, limit, allocator, why, why_size);
  if (!bytes || count > TOK__MAX_FILE) {
    tok__say(&r, MIRAS_ERR_ARGUMENT, "a file of at most 2^28 bytes is needed");
    return NULL;
  }
  t = tok__new(&r);
  return t ? tok__opened(t, tok__read(t, bytes, count)) : NULL;
}

MIRAS_API miras_tokenizer *miras_tokenizer_open(const char *path, uint64_t limit,
                                                const miras_allocator *allocator, char *why,
                                                size_t why_size) {
  static const char json[] = "/tokenizer.json", config[] = "tokenizer_config.json";
  tok__buffer at = {NULL, 0, 0}, file = {NULL, 0, 0}, extra = {NULL, 0, 0};
  const char *name = path ? path : "", *c;
  miras_tokenizer *t = NULL;
  tok__room r;
  int there = 0;
  tok__room_init(&r, limit, allocator, why, why_size);
  for (c = name; *c; c++)
    if ((*c == '/' || *c == '\\') && c[1]) name = c + 1;
  if (path && tok__put(&r, &at, path, strlen(path)) && tok__put(&r, &at, json, sizeof json)) {
    there = tok__file(&r, at.at, json + 1, &file);
    at.size = there > 0 ? strlen(path) + 1 : (size_t)(name - path);   /* the folder */
    if (there > 0) name = json + 1;
    else if (there < 0) there = tok__file(&r, path, name, &file);
    if (there < 0) tok__say(&r, MIRAS_ERR_IO, "%.160s cannot be opened", name);
    if (there > 0 && strcmp(name, json + 1) == 0 &&
        (!tok__put(&r, &at, config, sizeof config) || !tok__file(&r, at.at, config, &extra)))
      there = 0;
  }
  if (there > 0 && why && why_size) {   /* what is said now begins with the file's name */
    snprintf(why, why_size, "%.160s: ", name);
    r.why = why + strlen(why);
    r.why_size = why_size - strlen(why);
  }
  t = there > 0 ? tok__new(&r) : NULL;
  if (t) {
    const int good = tok__read(t, file.at, file.size);
    if (good) tok__read_end(t, &extra);
    t->room.used -= r.used - sizeof *t;   /* what the files took is given back below */
    r.used -= sizeof *t;
    t = tok__opened(t, good);
  }
  tok__drop(&r, &at);
  tok__drop(&r, &file);
  tok__drop(&r, &extra);
  if (t && why && why_size) why[0] = 0;
  return t;
}

MIRAS_API miras_tokenizer *miras_tokenizer_open_arrays(const miras_tokenizer_arrays *arrays,
                                                       uint64_t limit,
                                                       const miras_allocator *allocator,
                                                       char *why, size_t why_size) {
  miras_tokenizer *t;
  tok__room r;
  tok__room_init(&r, limit, allocator, why, why_size);
  if (!arrays) {
    tok__say(&r, MIRAS_ERR_ARGUMENT, "arrays are needed");
    return NULL;
  }
  t = tok__new(&r);
  return t ? tok__opened(t, tok__read_arrays(t, arrays)) : NULL;
}

MIRAS_API miras_result miras_tokenizer_encode(const miras_tokenizer *t, const char *text,
                                              size_t bytes, int flags, int32_t *ids,
                                              size_t *count, char *why, size_t why_size) {
  tok__work w;
  int i, good = 1;
  memset(&w, 0, sizeof w);
  tok__room_init(&w.room, 0, NULL, why, why_size);
  if (!t || !count || (bytes && !text) || (*count && !ids)) {
    tok__say(&w.room, MIRAS_ERR_ARGUMENT, "a vocabulary, a text and room for tokens are needed");
    return MIRAS_ERR_ARGUMENT;
  }
  if (bytes > TOK__MAX_TEXT) {
    tok__say(&w.room, MIRAS_ERR_SIZE, "the text has more than 2^30 bytes");
    return MIRAS_ERR_SIZE;
  }
  w.t = t;
  w.room.from = t->room.from;
  w.room.limit = t->room.limit;
  w.room.used = t->room.used;
  w.flags = flags;
  w.ids = ids;
  w.most = *count;
  if (flags & MIRAS_TOKENIZER_SPECIAL)
    for (i = 0; i < t->befores; i++) tok__emit(&w, t->before[i]);
  if (t->kind == TOK__TREE) {
    good = tok__longest(&w, text, bytes);
  } else {
    if (tok__valid_count(text, bytes) < bytes) good = tok__repair(&w, &text, &bytes);
    if (good && bytes) good = tok__segments(&w, 0, text, bytes, 1);
  }
  if (flags & MIRAS_TOKENIZER_SPECIAL)
    for (i = 0; i < t->afters; i++) tok__emit(&w, t->after[i]);
  if (good) *count = w.count;
  tok__work_close(&w);
  return w.room.result;
}

/* What decoding writes; place as the caller has it, -1 behind the beginning. */
typedef struct tok__writer {
  char *out;
  size_t room, size;
  int place, strips;       /* blanks that were left out, and how many may be                      */
} tok__writer;

static void tok__write(tok__writer *w, char byte) {
  if (byte == ' ' && w->place >= 0 && w->place < w->strips) {
    w->place++;
    return;
  }
  if (w->strips) w->place = -1;
  if (w->size < w->room) w->out[w->size] = byte;
  w->size++;
}

/* The byte that <0x41> stands for, or -1. */
static int tok__fallback_of(const char *at, size_t n) {
  static const char hex[] = "0123456789ABCDEFabcdef";
  const char *high, *low;
  if (n != 6 || memcmp(at, "<0x", 3) != 0 || at[5] != '>' || !at[3] || !at[4]) return -1;
  high = strchr(hex, at[3]);
  low = strchr(hex, at[4]);
  if (!high || !low) return -1;
  return (int)((high - hex - (high - hex > 15 ? 6 : 0)) * 16 +
               (low - hex - (low - hex > 15 ? 6 : 0)));
}

/* The bytes of a token. */
static void tok__write_token(const miras_tokenizer *t, const tok__token *token, tok__writer *w) {
  static const char space[] = "\xe2\x96\x81";
  const char *at = t->text.at + token->shown, *end = at + token->shown_size, *with;
  const int shows = t->shows, first = w->place == 0 && shows & TOK__AS_DROPPING;
  const size_t m = strlen(t->shown_from);
  const int byte = shows & TOK__AS_FALLBACK ? tok__fallback_of(at, token->shown_size) : -1;
  uint32_t c;
  if (byte >= 0) {
    tok__write(w, (char)byte);
    return;
  }
  while (at < end) {
    if (shows & TOK__AS_BYTES && !(token->flags & TOK__RAW)) {
      at += tok__char(at, &c);
      tok__write(w, (char)tok__byte_of(c));
    } else if (shows & TOK__AS_REPLACED && (size_t)(end - at) >= m &&
               memcmp(at, t->shown_from, m) == 0) {
      for (with = t->shown_to; *with; with++) tok__write(w, *with);
      at += m;
    } else if (shows & TOK__AS_METASPACE && end - at >= 3 && memcmp(at, space, 3) == 0) {
      if (!first) tok__write(w, ' ');
      at += 3;
    } else {
      tok__write(w, *at++);
    }
  }
}

MIRAS_API size_t miras_tokenizer_decode(const miras_tokenizer *t, const int32_t *ids, size_t count,
                                        int flags, int *place, char *out, size_t room) {
  tok__writer w;
  size_t i;
  if (!t || (count && !ids) || (room && !out)) return SIZE_MAX;
  for (i = 0; i < count; i++)
    if (ids[i] < 0 || (uint32_t)ids[i] >= t->size) return SIZE_MAX;
  w.out = out;
  w.room = room;
  w.size = 0;
  w.place = place ? *place : -1;
  w.strips = t->stripped;
  for (i = 0; i < count; i++) {
    const tok__token *token = tok__tokens(t) + ids[i];
    if (!(token->flags & TOK__KNOWN) ||
        (flags & MIRAS_TOKENIZER_SPECIAL && token->flags & TOK__SPECIAL)) continue;
    tok__write_token(t, token, &w);
    if (!w.strips) w.place = -1;
  }
  if (place && w.size <= room) *place = w.place;
  return w.size;
}

MIRAS_API int32_t miras_tokenizer_size(const miras_tokenizer *t) {
  return t ? (int32_t)t->size : 0;
}

MIRAS_API int32_t miras_tokenizer_find(const miras_tokenizer *t, const char *text, size_t bytes) {
  return t && (text || !bytes) ? (int32_t)tok__find(t, text, bytes) : -1;
}

MIRAS_API int32_t miras_tokenizer_end(const miras_tokenizer *t) {
  return t ? (int32_t)t->end : -1;
}

#endif /* MIRAS_TOKENIZER_IMPLEMENTATION */
