// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: its files in /sys/kernel/mm/ksm/, beside those of KSM.
 */
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "internal.h"

#define ATTR(_name) \
	static struct kobj_attribute _name##_attr = __ATTR_RW(_name)

static ssize_t scan_policy_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, ksm_selective() ? "all [dormant]\n" :
						 "[all] dormant\n");
}

static ssize_t scan_policy_store(struct kobject *kobj,
				 struct kobj_attribute *attr, const char *buf,
				 size_t count)
{
	if (sysfs_streq(buf, "dormant"))
		ksm_selective_switch(true);
	else if (sysfs_streq(buf, "all"))
		ksm_selective_switch(false);
	else
		return -EINVAL;
	return count;
}
ATTR(scan_policy);

static const char *const scopes[] = {
	[KSM_SCOPE_ALL] = "all",
	[KSM_SCOPE_APP] = "application",
	[KSM_SCOPE_GLOBAL] = "global",
};

static ssize_t scan_scope_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *buf)
{
	static const char *const output[] = {
		[KSM_SCOPE_ALL] = "[all] application global",
		[KSM_SCOPE_APP] = "all [application] global",
		[KSM_SCOPE_GLOBAL] = "all application [global]",
	};

	return sysfs_emit(buf, "%s\n", output[READ_ONCE(ksm_scope)]);
}

/* A running scan keeps the scope that it began with. */
static ssize_t scan_scope_store(struct kobject *kobj,
				struct kobj_attribute *attr, const char *buf,
				size_t count)
{
	int scope = sysfs_match_string(scopes, buf);

	if (scope < 0)
		return scope;
	WRITE_ONCE(ksm_scope, scope);
	return count;
}
ATTR(scan_scope);

static ssize_t scan_new_regions_show(struct kobject *kobj,
				     struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(ksm_scan_new_regions));
}

static ssize_t scan_new_regions_store(struct kobject *kobj,
				      struct kobj_attribute *attr,
				      const char *buf, size_t count)
{
	bool value;

	if (kstrtobool(buf, &value))
		return -EINVAL;
	WRITE_ONCE(ksm_scan_new_regions, value);
	return count;
}
ATTR(scan_new_regions);

static ssize_t dormant_oom_score_adj_show(struct kobject *kobj,
					  struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(ksm_dormant_oom_score_adj));
}

static ssize_t dormant_oom_score_adj_store(struct kobject *kobj,
					   struct kobj_attribute *attr,
					   const char *buf, size_t count)
{
	int value;

	if (kstrtoint(buf, 10, &value) || value < OOM_SCORE_ADJ_MIN ||
	    value > OOM_SCORE_ADJ_MAX + 1)
		return -EINVAL;
	WRITE_ONCE(ksm_dormant_oom_score_adj, value);
	if (ksm_selective())
		ksm_selective_look_again();
	return count;
}
ATTR(dormant_oom_score_adj);

static ssize_t learn_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(ksm_learning));
}

static ssize_t learn_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	unsigned int value;

	if (kstrtouint(buf, 10, &value) || value != 1)
		return -EINVAL;
	return ksm_selective_learn() ?: count;
}
ATTR(learn);

static ssize_t profile_max_bytes_show(struct kobject *kobj,
				      struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", READ_ONCE(ksm_profile_max_bytes));
}

static ssize_t profile_max_bytes_store(struct kobject *kobj,
				       struct kobj_attribute *attr,
				       const char *buf, size_t count)
{
	unsigned long value;

	/* Existing profiles stay, even above the limit. */
	if (kstrtoul(buf, 10, &value))
		return -EINVAL;
	WRITE_ONCE(ksm_profile_max_bytes, value);
	return count;
}
ATTR(profile_max_bytes);

static ssize_t ksmd_nice_show(struct kobject *kobj, struct kobj_attribute *attr,
			      char *buf)
{
	return sysfs_emit(buf, "%d\n", ksm_selective_nice());
}

static ssize_t ksmd_nice_store(struct kobject *kobj,
			       struct kobj_attribute *attr, const char *buf,
			       size_t count)
{
	int nice;

	if (kstrtoint(buf, 10, &nice))
		return -EINVAL;
	return ksm_selective_set_nice(nice) ?: count;
}
ATTR(ksmd_nice);

/* A read-only number. */
struct counter {
	struct kobj_attribute attr;
	unsigned long *value;
};

static ssize_t counter_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%lu\n",
			  READ_ONCE(*container_of(attr, struct counter, attr)->value));
}

#define COUNTER(_name, _mode, _value) \
	static struct counter _name##_counter = { \
		.attr = __ATTR(_name, _mode, counter_show, NULL), \
		.value = &(_value), \
	}

COUNTER(dormant_scans, 0444, ksm_dormant_scans);
COUNTER(dormant_scans_left, 0444, ksm_dormant_scans_left);
/* Root only: how much a merged page adds here tells whether others merged pages near it. */
COUNTER(profile_bytes, 0400, ksm_profile_bytes);
COUNTER(profile_refused, 0400, ksm_profile_refused);

static struct attribute *selective_attrs[] = {
	&scan_policy_attr.attr,
	&scan_scope_attr.attr,
	&scan_new_regions_attr.attr,
	&dormant_oom_score_adj_attr.attr,
	&learn_attr.attr,
	&profile_max_bytes_attr.attr,
	&ksmd_nice_attr.attr,
	&dormant_scans_counter.attr.attr,
	&dormant_scans_left_counter.attr.attr,
	&profile_bytes_counter.attr.attr,
	&profile_refused_counter.attr.attr,
	NULL,
};

static ssize_t profile_read(struct file *file, struct kobject *kobj,
			    struct bin_attribute *attr, char *buf, loff_t off,
			    size_t count)
{
	return ksm_profile_read(buf, off, count);
}

static ssize_t profile_write(struct file *file, struct kobject *kobj,
			     struct bin_attribute *attr, char *buf, loff_t off,
			     size_t count)
{
	return ksm_profile_write(buf, count);
}

/* A binary attribute, because the text may be longer than a page. */
static struct bin_attribute profile_attr = {
	/* Root only: it shows addresses of processes. */
	.attr = { .name = "profile", .mode = 0600 },
	.read = profile_read,
	.write = profile_write,
};

static struct bin_attribute *selective_bin_attrs[] = { &profile_attr, NULL };

static const struct attribute_group selective_group = {
	.name = "ksm",
	.attrs = selective_attrs,
	.bin_attrs = selective_bin_attrs,
};

/* Adds files to KSM's own directory. */
static int __init ksm_selective_init(void)
{
	return sysfs_update_group(mm_kobj, &selective_group);
}
late_initcall(ksm_selective_init);
