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

#define ATTR_RO(_name) \
	static struct kobj_attribute _name##_attr = __ATTR_RO(_name)
#define ATTR(_name) \
	static struct kobj_attribute _name##_attr = __ATTR_RW(_name)

/* All words, the one in force in brackets, as in advisor_mode. */
static ssize_t show_choice(char *buf, const char *const *words, int nr, int now)
{
	ssize_t len = 0;
	int i;

	for (i = 0; i < nr; i++)
		len += sysfs_emit_at(buf, len, i == now ? "%s[%s]" : "%s%s",
				     i ? " " : "", words[i]);
	return len + sysfs_emit_at(buf, len, "\n");
}

static const char *const policy_words[] = { "all", "dormant" };

static ssize_t scan_policy_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *buf)
{
	return show_choice(buf, policy_words, ARRAY_SIZE(policy_words),
			   ksm_selective());
}

static ssize_t scan_policy_store(struct kobject *kobj,
				 struct kobj_attribute *attr, const char *buf,
				 size_t count)
{
	int policy = sysfs_match_string(policy_words, buf);

	if (policy < 0)
		return policy;
	ksm_selective_switch(policy);
	return count;
}
ATTR(scan_policy);

static const char *const scope_words[] = {
	[KSM_SCOPE_ALL] = "all",
	[KSM_SCOPE_APP] = "application",
	[KSM_SCOPE_GLOBAL] = "global",
};

static ssize_t scan_scope_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *buf)
{
	return show_choice(buf, scope_words, ARRAY_SIZE(scope_words),
			   READ_ONCE(ksm_scope));
}

/* A scan that is under way goes on with what it has begun with. */
static ssize_t scan_scope_store(struct kobject *kobj,
				struct kobj_attribute *attr, const char *buf,
				size_t count)
{
	int scope = sysfs_match_string(scope_words, buf);

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
	if (!ksm_selective())
		return -EBUSY;
	ksm_selective_learn();
	return count;
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

	/* What is there stays. */
	if (kstrtoul(buf, 10, &value))
		return -EINVAL;
	WRITE_ONCE(ksm_profile_max_bytes, value);
	return count;
}
ATTR(profile_max_bytes);

static ssize_t profile_bytes_show(struct kobject *kobj,
				  struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", ksm_profile_bytes());
}
ATTR_RO(profile_bytes);

static ssize_t profile_refused_show(struct kobject *kobj,
				    struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", READ_ONCE(ksm_profile_refused));
}
ATTR_RO(profile_refused);

static ssize_t ksmd_nice_show(struct kobject *kobj, struct kobj_attribute *attr,
			      char *buf)
{
	return sysfs_emit(buf, "%d\n", ksm_selective_nice());
}

static ssize_t ksmd_nice_store(struct kobject *kobj,
			       struct kobj_attribute *attr, const char *buf,
			       size_t count)
{
	int nice, err;

	if (kstrtoint(buf, 10, &nice))
		return -EINVAL;
	err = ksm_selective_set_nice(nice);
	return err ?: count;
}
ATTR(ksmd_nice);

static ssize_t dormant_scans_show(struct kobject *kobj,
				  struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", READ_ONCE(ksm_dormant_scans));
}
ATTR_RO(dormant_scans);

static ssize_t dormant_scans_left_show(struct kobject *kobj,
				       struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", READ_ONCE(ksm_dormant_scans_left));
}
ATTR_RO(dormant_scans_left);

static ssize_t pages_left_out_show(struct kobject *kobj,
				   struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", READ_ONCE(ksm_pages_left_out));
}
ATTR_RO(pages_left_out);

static struct attribute *selective_attrs[] = {
	&scan_policy_attr.attr,
	&scan_scope_attr.attr,
	&scan_new_regions_attr.attr,
	&dormant_oom_score_adj_attr.attr,
	&learn_attr.attr,
	&profile_max_bytes_attr.attr,
	&profile_bytes_attr.attr,
	&profile_refused_attr.attr,
	&ksmd_nice_attr.attr,
	&dormant_scans_attr.attr,
	&dormant_scans_left_attr.attr,
	&pages_left_out_attr.attr,
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

/* Text, but longer than what an ordinary attribute can hold. */
static struct bin_attribute profile_attr = {
	/* Where programs have their memory is nobody else's business. */
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

/* KSM has made the directory: files are added to it. */
static int __init ksm_selective_init(void)
{
	return sysfs_update_group(mm_kobj, &selective_group);
}
late_initcall(ksm_selective_init);
