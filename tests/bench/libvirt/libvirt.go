// Package libvirt measures the driver of virtual machines against libvirt's
// test driver: make bench-libvirt.
package libvirt
