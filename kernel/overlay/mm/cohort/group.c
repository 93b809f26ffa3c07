// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: who may share with whom without having been forked from one
 * parent.
 *
 * A group has a name, which a cgroup's label gives to all programs that are executed in
 * it (memory.cohort), or prctl() to those that a process executes. A process gets its
 * group when it executes a program, and its children inherit it. Members have one user
 * and one user namespace, unless the label says `keep-ids`. A process leaves the group,
 * with all tables, when it becomes another user or enters another namespace, which
 * `keep-ids` allows it to do, or when it moves to a cgroup with another label; see
 * mm/cohort/ids.c. A program that gains privileges, or that may not be dumped, is in
 * none.
 *
 * One name in different cgroup namespaces names different groups: a container that may
 * label its own cgroups, or whose programs call prctl(), meets neither its runtime nor
 * other containers.
 */
#define pr_fmt(fmt) "cohort: " fmt

#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/ctype.h>
#include <linux/jhash.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/nsproxy.h>
#include <linux/resume_user_mode.h>
#include <linux/rhashtable.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>

#include "group.h"

enum cohort_join cohort_join __read_mostly = COHORT_JOIN_GROUP;

static struct rhashtable groups;
static DEFINE_SPINLOCK(groups_lock);

/*
 * Anybody may make groups, so nobody may know the seed, and all that tells two groups apart
 * counts: else one user's could all be in one place (invariant 13).
 */
static u32 hash_key(const void *data, u32 len, u32 seed)
{
	const struct cohort_key *key = data;
	u32 hash = jhash(key->name, strlen(key->name), seed);

	hash = jhash_3words((u32)key->scope, key->flags, __kuid_val(key->uid),
			    hash);
	return jhash(&key->ns, sizeof(key->ns), hash);
}

static u32 hash_group(const void *data, u32 len, u32 seed)
{
	return hash_key(&((const struct cohort_group *)data)->key, len, seed);
}

static bool same_group(const struct cohort_key *a, const struct cohort_key *b)
{
	return !strcmp(a->name, b->name) && a->scope == b->scope &&
	       a->flags == b->flags && a->ns == b->ns &&
	       uid_eq(a->uid, b->uid);
}

static int differs(struct rhashtable_compare_arg *arg, const void *group)
{
	return !same_group(&((const struct cohort_group *)group)->key, arg->key);
}

static const struct rhashtable_params groups_params = {
	.head_offset = offsetof(struct cohort_group, node),
	.key_len = sizeof(struct cohort_key),
	.hashfn = hash_key,
	.obj_hashfn = hash_group,
	.obj_cmpfn = differs,
	.automatic_shrinking = true,
};

static struct cohort_group *get_existing(const struct cohort_key *key)
{
	struct cohort_group *group;

	lockdep_assert_held(&groups_lock);
	group = rhashtable_lookup_fast(&groups, key, groups_params);
	if (group)
		refcount_inc(&group->members);
	return group;
}

/* The group with a key, with a reference; NULL without memory. */
static struct cohort_group *group_get(const struct cohort_key *key)
{
	struct cohort_group *group, *new;

	spin_lock(&groups_lock);
	group = get_existing(key);
	spin_unlock(&groups_lock);
	if (group)
		return group;
	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return NULL;
	if (key->flags & COHORT_GROUP_PLACES) {
		new->arena = cohort_arena_alloc();
		if (!new->arena) {
			kfree(new);
			return NULL;
		}
	}
	spin_lock(&groups_lock);
	group = get_existing(key);
	if (!group) {
		refcount_set(&new->members, 1);
		new->id = cohort_new_id();
		new->key = *key;
		if (!rhashtable_insert_fast(&groups, &new->node,
					    groups_params)) {
			get_user_ns(key->ns);
			group = new;
			new = NULL;
		}
	}
	spin_unlock(&groups_lock);
	if (!new)
		return group;
	cohort_arena_free(new->arena);
	kfree(new);
	return group;
}

static void group_put(struct cohort_group *group)
{
	if (!refcount_dec_and_lock(&group->members, &groups_lock))
		return;
	rhashtable_remove_fast(&groups, &group->node, groups_params);
	spin_unlock(&groups_lock);
	put_user_ns(group->key.ns);
	/* Only members look at it, each for itself. */
	cohort_arena_free(group->arena);
	kfree_rcu(group, rcu);
}

/**
 * cohort_do_set_group() - put a process into a group, or take it out
 * @mm: the process; its mmap_lock is held for writing, or nobody else uses it
 * @group: of which the caller has a member, or NULL; then @mm uses no open table
 */
void cohort_do_set_group(struct mm_struct *mm, struct cohort_group *group)
{
	struct cohort_group *old = mm->cohort.group;

	if (group)
		refcount_inc(&group->members);
	WRITE_ONCE(mm->cohort.group, group);
	if (old)
		group_put(old);
}

/* --- labels ---------------------------------------------------------------- */

/**
 * struct cohort_label - what memory.cohort of a cgroup says
 * @rcu: for programs that are executed meanwhile
 * @scope: see &struct cohort_key
 * @flags: COHORT_GROUP_*
 * @name: the group's name
 */
struct cohort_label {
	struct rcu_head rcu;
	u64 scope;
	unsigned int flags;
	char name[COHORT_NAME];
};

/* A word in a file of one line, which is none of those behind a name. */
static bool good_name(const char *name)
{
	if (!*name || strlen(name) >= COHORT_NAME)
		return false;
	for (; *name; name++)
		if (!isascii(*name) || !isgraph(*name) || *name == '=')
			return false;
	return true;
}

static const struct {
	const char *word;
	unsigned int set, clear;
} label_words[] = {
	{ "keep-ids", COHORT_GROUP_KEEP_IDS, 0 },
	{ "aslr=process", 0, COHORT_GROUP_CONGRUENT | COHORT_GROUP_EQUAL },
	{ "aslr=congruent", COHORT_GROUP_CONGRUENT, COHORT_GROUP_EQUAL },
#ifdef CONFIG_COHORT_BABELFISH
	/* Of no use without its TLBs, and members know each other's addresses. */
	{ "aslr=equal", COHORT_GROUP_CONGRUENT | COHORT_GROUP_EQUAL, 0 },
#endif
	{ "places", COHORT_GROUP_PLACES, 0 },
};

static int parse_word(struct cohort_label *label, const char *word)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(label_words); i++)
		if (!strcmp(label_words[i].word, word)) {
			label->flags |= label_words[i].set;
			label->flags &= ~label_words[i].clear;
			return 0;
		}
	return -EINVAL;
}

static int parse_label(struct cohort_label *label, struct file *file,
		       char *text)
{
	char *word = strsep(&text, " ");
	int err = 0;

	if (!good_name(word))
		return -EINVAL;
	strscpy(label->name, word, COHORT_NAME);
	label->flags = COHORT_GROUP_LABEL | COHORT_GROUP_CONGRUENT;
	while (!err && (word = strsep(&text, " ")))
		err = *word ? parse_word(label, word) : 0;
	/* A place says where in 2 MB, too. */
	if (!err && (label->flags & COHORT_GROUP_PLACES) &&
	    !(label->flags & COHORT_GROUP_CONGRUENT))
		err = -EINVAL;
	/* Members of different users: that concerns all of them, not the cgroup's owner. */
	if (!err && (label->flags & COHORT_GROUP_KEEP_IDS) &&
	    !(capable(CAP_SYS_ADMIN) &&
	      file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN)))
		err = -EPERM;
	return err;
}

/* The label that applies in a cgroup: its own, or the next above it. RCU is held. */
static struct cohort_label *label_of(struct mem_cgroup *memcg)
{
	struct cohort_label *label;

	for (; memcg; memcg = parent_mem_cgroup(memcg)) {
		label = rcu_dereference(memcg->cohort_label);
		if (label)
			return label;
	}
	return NULL;
}

static void set_label(struct mem_cgroup *memcg, struct cohort_label *label)
{
	label = unrcu_pointer(xchg(&memcg->cohort_label,
				   RCU_INITIALIZER(label)));
	if (label)
		kfree_rcu(label, rcu);
}

void cohort_label_free(struct mem_cgroup *memcg)
{
	set_label(memcg, NULL);
}

/* The root of the caller's cgroup namespace. */
static u64 own_scope(void)
{
	return cgroup_id(current->nsproxy->cgroup_ns->root_cset->dfl_cgrp);
}

static ssize_t label_write(struct kernfs_open_file *of, char *buf,
			   size_t nbytes, loff_t off)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(of_css(of));
	struct cohort_label *label;
	int err;

	/* The scope is the writer's: nobody may write through another's open file. */
	if (of->file->f_cred != current_cred())
		return -EPERM;
	buf = strstrip(buf);
	if (!*buf) {
		set_label(memcg, NULL);
		return nbytes;
	}
	label = kzalloc(sizeof(*label), GFP_KERNEL_ACCOUNT);
	if (!label)
		return -ENOMEM;
	err = parse_label(label, of->file, buf);
	if (err) {
		kfree(label);
		return err;
	}
	label->scope = own_scope();
	cohort_request();
	set_label(memcg, label);
	return nbytes;
}

static const char *aslr_word(const struct cohort_label *label)
{
	if (label->flags & COHORT_GROUP_EQUAL)
		return "equal";
	return label->flags & COHORT_GROUP_CONGRUENT ? "congruent" : "process";
}

static int label_show(struct seq_file *m, void *v)
{
	struct mem_cgroup *memcg = mem_cgroup_from_seq(m);
	struct cohort_label *label;

	rcu_read_lock();
	label = rcu_dereference(memcg->cohort_label);
	if (label)
		seq_printf(m, "%s aslr=%s%s%s\n", label->name,
			   aslr_word(label),
			   label->flags & COHORT_GROUP_PLACES ? " places" : "",
			   label->flags & COHORT_GROUP_KEEP_IDS ? " keep-ids" :
								  "");
	rcu_read_unlock();
	return 0;
}

static struct cftype label_files[] = {
	{
		.name = "cohort",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = label_show,
		.write = label_write,
	},
	{ }
};

/* True if a process that is in @group, by a label, may stay in it in a cgroup. */
static bool label_keeps(struct cohort_group *group, struct mem_cgroup *memcg)
{
	struct cohort_label *label = label_of(memcg);

	return label && label->scope == group->key.scope &&
	       label->flags == group->key.flags &&
	       !strcmp(label->name, group->key.name);
}

/* A process whose group is not that of its cgroup leaves before it returns to user mode. */
static void leave_unless_kept(struct task_struct *task, struct mem_cgroup *memcg)
{
	struct cohort_group *group;
	struct mm_struct *mm;

	if (task->flags & PF_KTHREAD)
		return;
	task_lock(task);
	mm = task->mm;
	rcu_read_lock();
	/* RCU keeps the group while the process may leave it. */
	group = mm ? cohort_group(mm) : NULL;
	if (group && (group->key.flags & COHORT_GROUP_LABEL) &&
	    !label_keeps(group, memcg)) {
		WRITE_ONCE(mm->cohort.leaving, true);
		set_notify_resume(task);
	}
	rcu_read_unlock();
	task_unlock(task);
}

/**
 * cohort_do_move() - tasks have moved to other cgroups
 * @tset: the tasks
 *
 * They leave their groups as when they become another user.
 */
void cohort_do_move(struct cgroup_taskset *tset)
{
	struct cgroup_subsys_state *css;
	struct task_struct *task;

	cgroup_taskset_for_each(task, css, tset)
		leave_unless_kept(task, mem_cgroup_from_css(css));
}

/**
 * cohort_do_born() - a child of the calling process has a cgroup
 * @child: the child, which has not run yet
 *
 * As cohort_do_move(), for a child that was made in another cgroup. One that uses its
 * parent's memory stays with its parent, whose cgroup pays.
 */
void cohort_do_born(struct task_struct *child)
{
	if (child->mm == current->mm)
		return;
	rcu_read_lock();
	leave_unless_kept(child, mem_cgroup_from_task(child));
	rcu_read_unlock();
}

/**
 * cohort_do_hide() - the calling process changes whether it may be dumped
 * @mm: its address space, which is in a group
 * @dumpable: SUID_DUMP_*, which is set afterwards: a child that inherits it is not to
 *	      inherit the group
 *
 * Others may not look into a process that may not be dumped. It leaves its group, as when
 * it becomes another user.
 */
void cohort_do_hide(struct mm_struct *mm, unsigned long dumpable)
{
	if (dumpable == SUID_DUMP_USER)
		return;
	WRITE_ONCE(mm->cohort.leaving, true);
	set_notify_resume(current);
}

/**
 * cohort_prctl_group() - choose the group of programs that are executed later
 * @name: its name; empty for none
 *
 * Return: 0, -EINVAL, -EFAULT or -EINTR.
 */
long cohort_prctl_group(const char __user *name)
{
	struct mm_struct *mm = current->mm;
	char text[COHORT_NAME] = {};
	long len;

	len = strncpy_from_user(text, name, sizeof(text));
	if (len < 0)
		return len;
	if (len == sizeof(text) || (len && !good_name(text)))
		return -EINVAL;
	cohort_request();
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	memcpy(mm->cohort.name, text, sizeof(text));
	mmap_write_unlock(mm);
	return 0;
}

/* --- programs -------------------------------------------------------------- */

/* What the name of a process or its cgroup's label says; false if it is in no group. */
static bool find_key(struct mm_struct *mm, struct cohort_key *key)
{
	struct cohort_label *label;

	key->scope = own_scope();
	if (mm->cohort.name[0]) {
		memcpy(key->name, mm->cohort.name, COHORT_NAME);
		return true;
	}
	rcu_read_lock();
	label = label_of(mem_cgroup_from_task(current));
	if (label) {
		memcpy(key->name, label->name, COHORT_NAME);
		key->scope = label->scope;
		key->flags = label->flags;
	}
	rcu_read_unlock();
	return label || READ_ONCE(cohort_join) == COHORT_JOIN_USER;
}

/**
 * cohort_do_exec() - find the group of a process that executes a program
 * @mm: its new address space, in which nothing has been mapped but its stack
 *
 * Without memory the process is in none.
 */
void cohort_do_exec(struct mm_struct *mm)
{
	const struct cred *cred = current_cred();
	struct cohort_key key = { .flags = COHORT_GROUP_CONGRUENT };
	struct cohort_group *group;

	if (READ_ONCE(cohort_join) == COHORT_JOIN_NEVER ||
	    !uid_eq(cred->uid, cred->euid) ||
	    get_dumpable(mm) != SUID_DUMP_USER)
		return;
	if (!find_key(mm, &key))
		return;
	key.ns = cred->user_ns;
	key.uid = key.flags & COHORT_GROUP_KEEP_IDS ? INVALID_UID : cred->uid;
	group = group_get(&key);
	if (!group)
		return;
	/* A debugger may look at the new address space. */
	mmap_write_lock(mm);
	WRITE_ONCE(mm->cohort.group, group);
	mmap_write_unlock(mm);
	/*
	 * If it has moved since, cohort_do_move() has seen the group, or this sees the new
	 * cgroup: the unlock does not order the two by itself.
	 */
	smp_mb();
	rcu_read_lock();
	leave_unless_kept(current, mem_cgroup_from_task(current));
	rcu_read_unlock();
}

/* True if the members of a process's group may have different users. */
bool cohort_group_keeps_ids(struct mm_struct *mm)
{
	struct cohort_group *group;
	bool keeps;

	rcu_read_lock();
	group = cohort_group(mm);
	keeps = group && group->key.flags & COHORT_GROUP_KEEP_IDS;
	rcu_read_unlock();
	return keeps;
}

/* Two lines of /proc/PID/cohort. */
void cohort_group_show(struct seq_file *m, struct mm_struct *mm)
{
	struct cohort_group *group;
	u64 id = 0;
	char name[COHORT_NAME] = {};

	rcu_read_lock();
	group = cohort_group(mm);
	if (group) {
		id = group->id;
		memcpy(name, group->key.name, COHORT_NAME);
	}
	rcu_read_unlock();
	seq_printf(m, "Group:\t%llu\n", id);
	seq_printf(m, "GroupName:\t%s\n", name);
}

void cohort_set_join(enum cohort_join join)
{
	if (join == COHORT_JOIN_USER)
		cohort_request();
	WRITE_ONCE(cohort_join, join);
}

static int __init setup_cohort_join(char *arg)
{
	if (!strcmp(arg, "never"))
		cohort_join = COHORT_JOIN_NEVER;
	else if (!strcmp(arg, "user"))
		cohort_join = COHORT_JOIN_USER;
	else if (strcmp(arg, "group"))
		pr_warn("cohort_join=%s: not one of never, group, user\n", arg);
	return 1;
}
__setup("cohort_join=", setup_cohort_join);

/* Before a program can be executed. */
static int __init cohort_groups_init(void)
{
	return rhashtable_init(&groups, &groups_params);
}
core_initcall(cohort_groups_init);

static int __init cohort_group_init(void)
{
	if (!arch_cohort_supported())
		cohort_join = COHORT_JOIN_NEVER;
	if (cohort_join == COHORT_JOIN_USER)
		cohort_request();
	return cgroup_add_dfl_cftypes(&memory_cgrp_subsys, label_files);
}
late_initcall(cohort_group_init);
