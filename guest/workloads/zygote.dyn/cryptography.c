// SPDX-License-Identifier: GPL-2.0-or-later
/* Parts that encrypt, hash and calculate. */
#include "part.h"

#include <math.h>

FN(void *, EVP_MD_fetch, void *, const char *, const char *);
FN(int, EVP_Digest, const void *, size_t, unsigned char *, unsigned *, const void *, void *);
FN(void, EVP_MD_free, void *);
FN(void *, EVP_PKEY_Q_keygen, void *, const char *, const char *, ...);
FN(void, EVP_PKEY_free, void *);

static bool crypto_find(void)
{
	const char *so = "libcrypto.so.3";

	return GET(so, EVP_MD_fetch) && GET(so, EVP_Digest) && GET(so, EVP_MD_free) &&
	       GET(so, EVP_PKEY_Q_keygen) && GET(so, EVP_PKEY_free);
}

static bool crypto_run(void)
{
	unsigned char digest[64];
	unsigned n = 0;
	void *md = EVP_MD_fetch(NULL, "SHA2-256", NULL);
	void *key;
	bool ok = md && EVP_Digest(sample, sizeof(sample), digest, &n, md, NULL) && n == 32;

	EVP_MD_free(md);
	key = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
	EVP_PKEY_free(key);
	return ok && key;
}

FN(int, gnutls_hash_fast, int, const void *, size_t, void *);
FN(int, gnutls_priority_init, void **, const char *, const char **);
FN(void, gnutls_priority_deinit, void *);

static bool gnutls_find(void)
{
	const char *so = "libgnutls.so.30";

	return GET(so, gnutls_hash_fast) && GET(so, gnutls_priority_init) &&
	       GET(so, gnutls_priority_deinit);
}

static bool gnutls_run(void)
{
	unsigned char digest[64];
	void *priority = NULL;
	const char *err;
	/* 6: SHA-256 */
	bool ok = !gnutls_hash_fast(6, sample, sizeof(sample), digest) &&
		  !gnutls_priority_init(&priority, "NORMAL", &err);

	if (priority)
		gnutls_priority_deinit(priority);
	return ok;
}

FN(const char *, gcry_check_version, const char *);
FN(void, gcry_md_hash_buffer, int, void *, const void *, size_t);

static bool gcrypt_find(void)
{
	return GET("libgcrypt.so.20", gcry_check_version) && GET("libgcrypt.so.20", gcry_md_hash_buffer);
}

static bool gcrypt_run(void)
{
	unsigned char digest[64] = { 0 };

	if (!gcry_check_version(NULL))
		return false;
	/* 8: SHA-256 */
	gcry_md_hash_buffer(8, digest, sample, sizeof(sample));
	return digest[0] | digest[1] | digest[2] | digest[3];
}

FN(int, sodium_init, void);
FN(int, crypto_generichash, void *, size_t, const void *, unsigned long long, const void *, size_t);

static bool sodium_find(void)
{
	return GET("libsodium.so.23", sodium_init) && GET("libsodium.so.23", crypto_generichash);
}

static bool sodium_run(void)
{
	unsigned char digest[32];

	return sodium_init() >= 0 && !crypto_generichash(digest, sizeof(digest), sample, sizeof(sample), NULL, 0);
}

/* mpz_t and mpfr_t are arrays of one struct of 16 and 32 bytes; these are larger. */
FN(void, __gmpz_init, void *);
FN(void, __gmpz_ui_pow_ui, void *, unsigned long, unsigned long);
FN(void, __gmpz_mul, void *, const void *, const void *);
FN(char *, __gmpz_get_str, char *, int, const void *);
FN(void, __gmpz_clear, void *);

static bool gmp_find(void)
{
	const char *so = "libgmp.so.10";

	return GET(so, __gmpz_init) && GET(so, __gmpz_ui_pow_ui) && GET(so, __gmpz_mul) &&
	       GET(so, __gmpz_get_str) && GET(so, __gmpz_clear);
}

static bool gmp_run(void)
{
	char z[64], *text;
	bool ok;

	__gmpz_init(z);
	__gmpz_ui_pow_ui(z, 3, 2000);
	__gmpz_mul(z, z, z);
	text = __gmpz_get_str(NULL, 10, z);
	ok = strlen(text) == 1909;
	free(text);
	__gmpz_clear(z);
	return ok;
}

FN(void, mpfr_init2, void *, long);
FN(int, mpfr_const_pi, void *, int);
FN(int, mpfr_sin, void *, const void *, int);
FN(double, mpfr_get_d, const void *, int);
FN(void, mpfr_clear, void *);
FN(void, mpfr_free_cache, void);

static bool mpfr_find(void)
{
	const char *so = "libmpfr.so.6";

	return GET(so, mpfr_init2) && GET(so, mpfr_const_pi) && GET(so, mpfr_sin) &&
	       GET(so, mpfr_get_d) && GET(so, mpfr_clear) && GET(so, mpfr_free_cache);
}

static bool mpfr_run(void)
{
	char x[128];
	double sine;

	mpfr_init2(x, 400);
	mpfr_const_pi(x, 0);
	mpfr_sin(x, x, 0);
	sine = mpfr_get_d(x, 0);
	mpfr_clear(x);
	mpfr_free_cache();
	return fabs(sine) < 1e-100;
}

struct part cryptography[] = {
	{ "crypto", crypto_find, crypto_run },
	{ "gnutls", gnutls_find, gnutls_run },
	{ "gcrypt", gcrypt_find, gcrypt_run },
	{ "sodium", sodium_find, sodium_run },
	{ "gmp", gmp_find, gmp_run },
	{ "mpfr", mpfr_find, mpfr_run },
	{ NULL },
};
