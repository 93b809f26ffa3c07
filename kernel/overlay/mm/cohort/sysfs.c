// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: /sys/kernel/mm/cohort/.
 */
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "internal.h"

/* All choices, the current one in brackets, as elsewhere in /sys/kernel/mm. */
static ssize_t show_choice(char *buf, const char *const *words, int nr, int now)
{
	ssize_t len = 0;
	int i;

	for (i = 0; i < nr; i++)
		len += sysfs_emit_at(buf, len, i == now ? "%s[%s]" : "%s%s",
				     i ? " " : "", words[i]);
	return len + sysfs_emit_at(buf, len, "\n");
}

static const char *const switch_words[] = { "off", "on" };

static const char *const mode_words[] = {
	[COHORT_ALWAYS] = "always",
	[COHORT_OPTIN] = "optin",
	[COHORT_NEVER] = "never",
};

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return show_choice(buf, mode_words, ARRAY_SIZE(mode_words),
			   READ_ONCE(cohort_mode));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	int mode = sysfs_match_string(mode_words, buf);

	if (mode < 0)
		return mode;
	if (mode != COHORT_NEVER && !arch_cohort_supported())
		return -EOPNOTSUPP;
	cohort_set_mode(mode);
	return count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

static const char *const copy_words[] = {
	[COHORT_COPY_ALL] = "all",
	[COHORT_COPY_REFERENCED] = "referenced",
};

static ssize_t unshare_copy_show(struct kobject *kobj,
				 struct kobj_attribute *attr, char *buf)
{
	return show_choice(buf, copy_words, ARRAY_SIZE(copy_words),
			   READ_ONCE(cohort_copy));
}

static ssize_t unshare_copy_store(struct kobject *kobj,
				  struct kobj_attribute *attr, const char *buf,
				  size_t count)
{
	int copy = sysfs_match_string(copy_words, buf);

	if (copy < 0)
		return copy;
	WRITE_ONCE(cohort_copy, copy);
	return count;
}

static struct kobj_attribute unshare_copy_attr = __ATTR_RW(unshare_copy);

static const char *const protect_words[] = {
	[COHORT_PROTECT_TABLE] = "table",
	[COHORT_PROTECT_PTE] = "pte",
};

static ssize_t protect_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return show_choice(buf, protect_words, ARRAY_SIZE(protect_words),
			   cohort_protect);
}

static struct kobj_attribute protect_attr = __ATTR_RO(protect);

#ifdef CONFIG_COHORT_GROUPS
static const char *const join_words[] = {
	[COHORT_JOIN_NEVER] = "never",
	[COHORT_JOIN_GROUP] = "group",
	[COHORT_JOIN_USER] = "user",
};

static ssize_t join_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	return show_choice(buf, join_words, ARRAY_SIZE(join_words),
			   READ_ONCE(cohort_join));
}

static ssize_t join_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	int join = sysfs_match_string(join_words, buf);

	if (join < 0)
		return join;
	if (join != COHORT_JOIN_NEVER && !arch_cohort_supported())
		return -EOPNOTSUPP;
	cohort_set_join(join);
	return count;
}

static struct kobj_attribute join_attr = __ATTR_RW(join);
#endif

#ifdef CONFIG_COHORT_BABELFISH
static ssize_t babelfish_show(struct kobject *kobj,
			      struct kobj_attribute *attr, char *buf)
{
	return show_choice(buf, switch_words, ARRAY_SIZE(switch_words),
			   cohort_bf_get());
}

static ssize_t babelfish_store(struct kobject *kobj,
			       struct kobj_attribute *attr, const char *buf,
			       size_t count)
{
	int on = sysfs_match_string(switch_words, buf);

	if (on < 0)
		return on;
	if (on && !arch_cohort_supported())
		return -EOPNOTSUPP;
	cohort_bf_set(on);
	return count;
}

static struct kobj_attribute babelfish_attr = __ATTR_RW(babelfish);
#endif

static const char *const fork_words[] = { "stock", "file" };

static ssize_t fork_copy_show(struct kobject *kobj, struct kobj_attribute *attr,
			      char *buf)
{
	return show_choice(buf, fork_words, ARRAY_SIZE(fork_words),
			   static_key_enabled(&cohort_copy_files_key));
}

static ssize_t fork_copy_store(struct kobject *kobj,
			       struct kobj_attribute *attr, const char *buf,
			       size_t count)
{
	int copy = sysfs_match_string(fork_words, buf);

	if (copy < 0)
		return copy;
	if (copy)
		static_branch_enable(&cohort_copy_files_key);
	else
		static_branch_disable(&cohort_copy_files_key);
	return count;
}

static struct kobj_attribute fork_copy_attr = __ATTR_RW(fork_copy);

DEFINE_STATIC_KEY_FALSE(cohort_count_key);

static ssize_t count_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	return show_choice(buf, switch_words, ARRAY_SIZE(switch_words),
			   static_key_enabled(&cohort_count_key));
}

static ssize_t count_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t size)
{
	int count = sysfs_match_string(switch_words, buf);

	if (count < 0)
		return count;
	if (count)
		static_branch_enable(&cohort_count_key);
	else
		static_branch_disable(&cohort_count_key);
	return size;
}

static struct kobj_attribute count_attr = __ATTR_RW(count);

static struct attribute *cohort_attrs[] = {
	&enabled_attr.attr,
	&unshare_copy_attr.attr,
	&protect_attr.attr,
#ifdef CONFIG_COHORT_GROUPS
	&join_attr.attr,
#endif
#ifdef CONFIG_COHORT_BABELFISH
	&babelfish_attr.attr,
#endif
	&fork_copy_attr.attr,
	&count_attr.attr,
	NULL,
};

static const struct attribute_group cohort_files = {
	.name = "cohort",
	.attrs = cohort_attrs,
};

static int __init cohort_sysfs_init(void)
{
	return sysfs_create_group(mm_kobj, &cohort_files);
}
subsys_initcall(cohort_sysfs_init);
