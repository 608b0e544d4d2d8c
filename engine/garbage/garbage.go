// Package garbage sets how much garbage a daemon leaves before its memory is collected.
package garbage

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much memory a daemon lets go to waste before it collects, in bytes: as much as brings all to the total, within
// bounds. A share of what it keeps, as GOGC has it, is either too little for a small site all of whose machines are looked
// at at once, or too much for a large one.
const (
	total          = 320 << 20
	least, largest = 48 << 20, 200 << 20
)

// CollectBySize has the collector leave garbage by how much the process keeps, from now on and after each collection,
// unless GOGC is set in its environment.
func CollectBySize() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(percentOf(kept()))
	afterCollection(CollectBySize)
}

// percentOf is the share of what is kept, in per cent, that makes up the garbage.
func percentOf(kept uint64) int {
	garbage := min(largest, max(least, total-int64(kept)))
	return int(min(400, max(10, 100*garbage/max(int64(kept), 1))))
}

// kept is what the last collection found in use, in bytes.
func kept() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return live[0].Value.Uint64()
}

// afterCollection calls f once the next collection is done, which frees what nobody refers to.
func afterCollection(f func()) {
	type unused struct{ _ *int } // one that shares its memory with others may live on
	runtime.AddCleanup(new(unused), func(f func()) { f() }, f)
}
