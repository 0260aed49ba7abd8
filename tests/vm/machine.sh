# SPDX-License-Identifier: Apache-2.0
# Sourced on the host: a virtual machine with Debian's kernel, which has soft RoCE, soft iWARP and
# netem. QEMU emulates it in software, so it needs no privilege and no virtualization; the kernel is
# unpacked, not installed. Guests see this system's /usr and the source tree with its build folder,
# both read-only. This file does not know the tests of the guests: guest.sh does.
#   $vm: folder of all created files; guests may write to $vm/w, which they see as /w.

vm_say() { printf '%s\n' "$*" >&2; }

vm_kernel_package() {
    apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }'
}

# fetch PACKAGE: its file in $vm/fetched.
vm_fetch() {
    ls "$vm/fetched/$1"_*.deb >/dev/null 2>&1 && return
    (cd "$vm/fetched" && { apt-get -qq download "$1" || { as_root apt-get -qq update && apt-get -qq download "$1"; }; }) ||
        { vm_say "apt-get could not download $1"; return 1; }
}

# Debian's kernel, unpacked. `apt-get download` asks for no right.
vm_make_kernel() {
    local image
    image=$(vm_kernel_package)
    [ -n "$image" ] || { as_root apt-get -qq update && image=$(vm_kernel_package); }
    [ -n "$image" ] || {
        vm_say "no package linux-image-amd64 is known here: the guest's kernel is Debian 12's." \
            "On another system, run this in a container of Debian 12"
        return 1
    }
    kernel=${image#linux-image-}
    if [ ! -e "$vm/k/boot/vmlinuz-$kernel" ] || [ ! -e "$vm/k/lib/modules/$kernel/modules.dep" ]; then
        rm -rf "$vm/k"
        vm_fetch "$image" && dpkg -x "$vm/fetched/$image"_*.deb "$vm/k" && depmod -b "$vm/k" "$kernel" || return 1
        rm -f "$vm/fetched/$image"_*.deb
    fi
    echo "$kernel" >"$vm/kernel"
    [ -e "$vm/k/lib/modules/$kernel/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko" ] ||
        { vm_say "kernel $kernel has no rdma_rxe"; return 1; }
}

# Soft iWARP is in the source of Debian's kernel and not among its modules.
vm_make_siw() {
    local release=${kernel%%-*} siw="$vm/k/lib/modules/$kernel/extra/siw.ko" source
    [ ! -e "$siw" ] || return 0
    release=${release%.*}
    [ -d "/usr/src/linux-headers-$kernel" ] || apt_install "linux-headers-$kernel" || return 1
    source=linux-source-$release
    vm_fetch "$source" || return 1
    dpkg --fsys-tarfile "$vm/fetched/$source"_*.deb | tar -xO "./usr/src/$source.tar.xz" |
        tar -xJ -C "$vm" "$source/drivers/infiniband/sw/siw" || return 1
    make -s -j2 -C "/usr/src/linux-headers-$kernel" M="$vm/$source/drivers/infiniband/sw/siw" \
        CONFIG_RDMA_SIW=m modules || return 1
    mkdir -p "${siw%/*}"
    strip -g -o "$siw" "$vm/$source/drivers/infiniband/sw/siw/siw.ko" && depmod -b "$vm/k" "$kernel" || return 1
    rm -rf "${vm:?}/$source" "$vm/fetched/$source"_*.deb
}

# What the kernel starts with: busybox, the modules for the shared folders, and the few files of /etc that
# programs look for.
vm_make_start() {
    local root="$vm/root" module file name
    rm -rf "$root"
    mkdir -p "$root"/{bb,m,proc,sys,dev,run,tmp,usr,k,w,etc,root,var/lib,mnt}
    cp /bin/busybox "$root/bb/"
    for name in $(/bin/busybox --list); do
        [ "$name" = busybox ] || ln -sf busybox "$root/bb/$name"
    done
    for name in bin sbin lib lib64; do
        ln -s usr/$name "$root/$name"
    done
    ln -s ../run "$root/var/run"
    cp -a /etc/libibverbs.d /etc/ld.so.cache /etc/nsswitch.conf /etc/alternatives "$root/etc/"
    cp /etc/passwd /etc/group "$root/etc/"
    echo '127.0.0.1 localhost' >"$root/etc/hosts"
    echo 'root:*:19000:0:99999:7:::' >"$root/etc/shadow" # a locked account has no ssh
    for module in virtio_pci virtio_net 9p 9pnet_virtio; do
        modprobe -d "$vm/k" -S "$kernel" --show-depends $module | awk '$1 == "insmod" { print $2 }'
    done | awk '!seen[$0]++' >"$vm/first"
    while read -r file; do
        cp "$file" "$root/m/" && echo "${file##*/}" >>"$root/m/list"
    done <"$vm/first"
    printf '#!/bb/sh\nexec /usr/sbin/modprobe -d /k "$@"\n' >"$root/bb/mp"
    cp "$tree/tests/vm/init" "$root/init"
    chmod +x "$root/bb/mp" "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$vm/start.gz"
    rm -rf "$root"
}

# A guest that did not get the CPU while it measured its clock would see time go several times too fast.
vm_measure_clock() {
    cc -O1 -o "$vm/tsc" "$tree/tests/vm/tsc.c" && "$vm/tsc" >"$vm/tsc_khz"
}

# All that guests need, as far as it is not there yet.
vm_prepare() {
    mkdir -p "$vm/fetched" "$vm/w"
    vm_make_kernel && vm_make_start && vm_measure_clock
}

# boot NAME CPUS COMMAND [QEMU ARGUMENT...]: a guest that runs COMMAND (a line of bash) as root in the source
# tree, and ends. What it says goes to $vm/w/NAME.out, its status to NAME.rc.
vm_boot() {
    local name=$1 cpus=$2 share=(-virtfs) khz
    khz=$(cat "$vm/tsc_khz")
    printf '%s\n' "$3" >"$vm/w/$name.sh"
    shift 3
    rm -f "$vm/w/$name".{out,rc,dmesg,console}
    # -accel tcg: a half-working KVM would hang the guest without a word.
    timeout -k 5 "${vm_limit:-580}" nice qemu-system-x86_64 -accel tcg,thread=multi -cpu Nehalem -m 1536 \
        -smp "$cpus" -nodefaults -no-user-config -no-reboot -display none \
        -serial "file:$vm/w/$name.console" -kernel "$vm/k/boot/vmlinuz-$(cat "$vm/kernel")" \
        -initrd "$vm/start.gz" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable ${khz:+tsc_early_khz=$khz} job=$name tree=$tree" \
        "${share[@]}" local,path=/usr,mount_tag=usr,security_model=none,readonly=on \
        "${share[@]}" "local,path=$vm/k/,mount_tag=k,security_model=none,readonly=on" \
        "${share[@]}" "local,path=$tree,mount_tag=tree,security_model=none,readonly=on,multidevs=remap" \
        "${share[@]}" "local,path=$vm/w,mount_tag=w,security_model=none" \
        "$@" </dev/null >"$vm/w/$name.qemu" 2>&1
}

# The guest's own status; 99 when it has left none.
vm_status() {
    local name=$1
    [ -s "$vm/w/$name.rc" ] && return "$(cat "$vm/w/$name.rc")"
    echo "guest $name has not ended by itself (limit ${vm_limit:-580} s); its console:"
    tail -n 30 "$vm/w/$name.console" "$vm/w/$name.qemu" 2>/dev/null
    return 99
}
