// SPDX-License-Identifier: GPL-2.0-or-later
/* Parts that send messages and wait for events. */
#include "part.h"

FN(void *, dbus_message_new_method_call, const char *, const char *, const char *, const char *);
FN(int, dbus_message_append_args, void *, int, ...);
FN(int, dbus_message_marshal, void *, char **, int *);
FN(void, dbus_message_unref, void *);
FN(void, dbus_free, void *);

static bool dbus_find(void)
{
	const char *so = "libdbus-1.so.3";

	return GET(so, dbus_message_new_method_call) && GET(so, dbus_message_append_args) &&
	       GET(so, dbus_message_marshal) && GET(so, dbus_message_unref) && GET(so, dbus_free);
}

static bool dbus_run(void)
{
	void *m = dbus_message_new_method_call("org.cohort", "/zygote", "org.cohort.Zygote", "Fork");
	const char *arg = "child";
	char *wire = NULL;
	int n = 0;
	bool ok = m && dbus_message_append_args(m, 's', &arg, 0) && dbus_message_marshal(m, &wire, &n);

	dbus_free(wire);
	dbus_message_unref(m);
	return ok && n > 40;
}

FN(void *, event_base_new, void);
FN(int, event_base_loop, void *, int);
FN(void, event_base_free, void *);

static bool event_find(void)
{
	const char *so = "libevent-2.1.so.7";

	return GET(so, event_base_new) && GET(so, event_base_loop) && GET(so, event_base_free);
}

static bool event_run(void)
{
	void *base = event_base_new();
	bool ok = base && event_base_loop(base, 2) >= 0;

	if (base)
		event_base_free(base);
	return ok;
}

struct part messages[] = {
	{ "dbus", dbus_find, dbus_run },
	{ "event", event_find, event_run },
	{ NULL },
};
