// SPDX-License-Identifier: GPL-2.0-or-later
/* Parts that draw and convert pictures. */
#include "part.h"

FN(void *, cairo_image_surface_create, int, int, int);
FN(void *, cairo_create, void *);
FN(void, cairo_set_source_rgba, void *, double, double, double, double);
FN(void, cairo_move_to, void *, double, double);
FN(void, cairo_curve_to, void *, double, double, double, double, double, double);
FN(void, cairo_arc, void *, double, double, double, double, double);
FN(void, cairo_fill_preserve, void *);
FN(void, cairo_stroke, void *);
FN(void, cairo_destroy, void *);
FN(void, cairo_surface_destroy, void *);
FN(int, cairo_surface_write_to_png_stream, void *, void *, void *);

static bool cairo_find(void)
{
	const char *so = "libcairo.so.2";

	return GET(so, cairo_image_surface_create) && GET(so, cairo_create) &&
	       GET(so, cairo_set_source_rgba) && GET(so, cairo_move_to) &&
	       GET(so, cairo_curve_to) && GET(so, cairo_arc) && GET(so, cairo_fill_preserve) &&
	       GET(so, cairo_stroke) && GET(so, cairo_destroy) && GET(so, cairo_surface_destroy) &&
	       GET(so, cairo_surface_write_to_png_stream);
}

static int cairo_count(void *closure, const void *data, unsigned n)
{
	(void)data;
	*(size_t *)closure += n;
	return 0;
}

static bool cairo_run(void)
{
	size_t bytes = 0;
	void *surface = cairo_image_surface_create(0, 32, 32);
	void *cr = cairo_create(surface);

	cairo_set_source_rgba(cr, 0.2, 0.4, 0.8, 0.7);
	cairo_move_to(cr, 2, 2);
	cairo_curve_to(cr, 30, 0, 0, 30, 30, 30);
	cairo_arc(cr, 16, 16, 10, 0, 5);
	cairo_fill_preserve(cr);
	cairo_stroke(cr);
	cairo_destroy(cr);
	cairo_surface_write_to_png_stream(surface, cairo_count, &bytes);
	cairo_surface_destroy(surface);
	return bytes > 100;
}

FN(void *, rsvg_handle_new_from_data, const void *, size_t, void *);
FN(int, rsvg_handle_render_document, void *, void *, const double *, void *);
FN(void, g_object_unref, void *);

static bool rsvg_find(void)
{
	return cairo_find() && GET("librsvg-2.so.2", rsvg_handle_new_from_data) &&
	       GET("librsvg-2.so.2", rsvg_handle_render_document) &&
	       GET("libgobject-2.0.so.0", g_object_unref);
}

static bool rsvg_run(void)
{
	static const char svg[] =
		"<svg xmlns='http://www.w3.org/2000/svg' width='16' height='16'>"
		"<rect x='2' y='2' width='9' height='7' fill='#369' stroke='red'/>"
		"<path d='M1 1 C 5 9 9 5 15 15 Z' fill-opacity='.5'/></svg>";
	static const double viewport[4] = { 0, 0, 16, 16 };
	void *surface = cairo_image_surface_create(0, 16, 16);
	void *cr = cairo_create(surface);
	void *handle = rsvg_handle_new_from_data(svg, sizeof(svg) - 1, NULL);
	bool ok = handle && rsvg_handle_render_document(handle, cr, viewport, NULL);

	if (handle)
		g_object_unref(handle);
	cairo_destroy(cr);
	cairo_surface_destroy(surface);
	return ok;
}

FN(void *, hb_buffer_create, void);
FN(void, hb_buffer_add_utf8, void *, const char *, int, unsigned, int);
FN(void, hb_buffer_guess_segment_properties, void *);
FN(void *, hb_font_get_empty, void);
FN(void, hb_shape, void *, void *, const void *, unsigned);
FN(unsigned, hb_buffer_get_length, void *);
FN(void, hb_buffer_destroy, void *);

static bool harfbuzz_find(void)
{
	const char *so = "libharfbuzz.so.0";

	return GET(so, hb_buffer_create) && GET(so, hb_buffer_add_utf8) &&
	       GET(so, hb_buffer_guess_segment_properties) && GET(so, hb_font_get_empty) &&
	       GET(so, hb_shape) && GET(so, hb_buffer_get_length) && GET(so, hb_buffer_destroy);
}

static bool harfbuzz_run(void)
{
	void *b = hb_buffer_create();
	unsigned n;

	hb_buffer_add_utf8(b, "shared \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", -1, 0, -1);
	hb_buffer_guess_segment_properties(b);
	hb_shape(hb_font_get_empty(), b, NULL, 0);
	n = hb_buffer_get_length(b);
	hb_buffer_destroy(b);
	return n > 0;
}

FN(int, FT_Init_FreeType, void **);
FN(int, FT_Done_FreeType, void *);

static bool freetype_find(void)
{
	return GET("libfreetype.so.6", FT_Init_FreeType) && GET("libfreetype.so.6", FT_Done_FreeType);
}

static bool freetype_run(void)
{
	void *ft;

	return !FT_Init_FreeType(&ft) && !FT_Done_FreeType(ft);
}

FN(size_t, WebPEncodeRGB, const uint8_t *, int, int, int, float, uint8_t **);
FN(uint8_t *, WebPDecodeRGB, const uint8_t *, size_t, int *, int *);
FN(void, WebPFree, void *);

static bool webp_find(void)
{
	const char *so = "libwebp.so.7";

	return GET(so, WebPEncodeRGB) && GET(so, WebPDecodeRGB) && GET(so, WebPFree);
}

static bool webp_run(void)
{
	uint8_t *packed = NULL, *back;
	int w = 0, h = 0;
	size_t n = WebPEncodeRGB((uint8_t *)sample, 16, 16, 48, 60, &packed);

	back = WebPDecodeRGB(packed, n, &w, &h);
	WebPFree(packed);
	WebPFree(back);
	return back && w == 16 && h == 16;
}

FN(void *, cmsCreate_sRGBProfile, void);
FN(void *, cmsCreateLab4Profile, void *);
FN(void *, cmsCreateTransform, void *, uint32_t, void *, uint32_t, uint32_t, uint32_t);
FN(void, cmsDoTransform, void *, const void *, void *, uint32_t);
FN(void, cmsDeleteTransform, void *);
FN(int, cmsCloseProfile, void *);

static bool lcms_find(void)
{
	const char *so = "liblcms2.so.2";

	return GET(so, cmsCreate_sRGBProfile) && GET(so, cmsCreateLab4Profile) &&
	       GET(so, cmsCreateTransform) && GET(so, cmsDoTransform) &&
	       GET(so, cmsDeleteTransform) && GET(so, cmsCloseProfile);
}

static bool lcms_run(void)
{
	/* TYPE_RGB_8 and TYPE_Lab_DBL of lcms2.h */
	const uint32_t rgb = 4 << 16 | 3 << 3 | 1, lab = 1 << 22 | 10 << 16 | 3 << 3;
	unsigned char in[3] = { 200, 30, 90 };
	double out[3] = { 0 };
	void *a = cmsCreate_sRGBProfile(), *b = cmsCreateLab4Profile(NULL);
	void *t = cmsCreateTransform(a, rgb, b, lab, 0, 0);

	if (!t)
		return false;
	cmsDoTransform(t, in, out, 1);
	cmsDeleteTransform(t);
	cmsCloseProfile(a);
	cmsCloseProfile(b);
	return out[0] > 10 && out[0] < 90;
}

struct part pictures[] = {
	{ "cairo", cairo_find, cairo_run },
	{ "rsvg", rsvg_find, rsvg_run },
	{ "harfbuzz", harfbuzz_find, harfbuzz_run },
	{ "freetype", freetype_find, freetype_run },
	{ "webp", webp_find, webp_run },
	{ "lcms", lcms_find, lcms_run },
	{ NULL },
};
