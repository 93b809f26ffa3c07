# SPDX-License-Identifier: GPL-2.0-or-later
# At each line that it reads: words of a file, counted, sorted and put together again.
work() {
	local -A count=()
	local line word text= i sorted j
	while IFS= read -r line; do
		for word in ${line//[!a-z]/ }; do
			count[$word]=$((${count[$word]:-0} + 1))
			[[ $word =~ ^[aeiou].*[st]$ ]] && text+=" ${word^^}"
		done
	done </etc/passwd
	sorted=("${!count[@]}")
	for ((i = 1; i < ${#sorted[@]}; i++)); do
		for ((j = i; j > 0; j--)); do
			[[ ${sorted[j]} < ${sorted[j - 1]} ]] || break
			word=${sorted[j]} sorted[j]=${sorted[j - 1]} sorted[j - 1]=$word
		done
	done
	printf -v text '%-10s|' "${sorted[@]:0:20}"
	for i in {1..200}; do case $i in *[05]) text=${text#?} ;; *) text+=$((i * i % 97)) ;; esac; done
}
while read -r line; do
	work
	echo done
done
