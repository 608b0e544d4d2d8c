package model

import "fmt"

// move is something that may happen next: it changes the world, or says that it
// cannot happen.
type move struct {
	name string
	do   func(*rules, *world) bool
}

// spend counts an event that is bounded. It says whether it may happen.
func (r *rules) spend(w *world, kind int) bool {
	w.spent[kind]++
	return w.spent[kind] <= r.most[kind]
}

// moves are what may happen in any world.
var moves = func() []move {
	all := []move{
		{"a commit asks for the next generation", func(r *rules, w *world) bool {
			w.design.generation++
			return w.design.has && r.spend(w, designs)
		}},
		{"a commit takes the node out of the design", func(r *rules, w *world) bool {
			ok := w.design.has && r.spend(w, designs)
			w.design.has = false
			return ok
		}},
		{"a commit puts the node back", func(r *rules, w *world) bool {
			ok := !w.design.has && r.spend(w, designs)
			w.design.has = true
			return ok
		}},
		{"a commit goes back to the last generation", func(r *rules, w *world) bool {
			w.design.generation--
			return w.design.has && w.design.generation > 0 && r.spend(w, designs)
		}},
		{"a commit removes the line from the design", func(r *rules, w *world) bool {
			ok := w.design.line != "" && r.spend(w, designs)
			w.design.line = ""
			return ok
		}},
		{"7 days pass", func(_ *rules, w *world) bool {
			ok := !w.late
			w.late = true
			return ok
		}},
		{"the disks of the machine are exchanged", func(r *rules, w *world) bool {
			w.machine.disks++
			return !w.isPermitted() && w.machine.erased == 0 && r.spend(w, swaps)
		}},
		{"the installation completes", func(_ *rules, w *world) bool {
			// A write follows its permission in seconds, an installation takes minutes.
			ok := w.machine.erased > 0 && !w.isPermitted()
			if ok {
				w.complete()
			}
			return ok
		}},
		{"the records of daemon A are backed up", func(r *rules, w *world) bool {
			backup := w.daemons[0].records
			backup.known = w.people.known()
			w.backup = &backup
			return backup.name != "" && r.spend(w, copies)
		}},
		{"the records of daemon A are set back to the backup", func(r *rules, w *world) bool {
			if w.backup == nil || w.daemons[0].running {
				return false
			}
			w.daemons[0].records, w.daemons[0].older = *w.backup, true
			w.backup = nil
			return true
		}},
		{"the backup is put into the place of daemon B's records", func(r *rules, w *world) bool {
			if w.backup == nil || w.daemons[1].running {
				return false
			}
			w.daemons[1].records, w.daemons[1].older = *w.backup, true
			w.backup = nil
			return true
		}},
		{"the records of daemon A are lost", func(r *rules, w *world) bool {
			d := &w.daemons[0]
			ok := !d.running && d.name != "" && r.spend(w, losses)
			d.records = records{}
			return ok
		}},
	}
	for i := range maxRead {
		all = append(all, move{fmt.Sprintf("a commit adds a line with set %d of those that people have read", i+1), func(r *rules, w *world) bool {
			if i >= len(w.people.read) {
				return false
			}
			read := w.people.read[i]
			if w.design.line == digest(read.loss) || !r.spend(w, decisions) {
				return false
			}
			w.design.line = digest(read.loss)
			w.people.decides(read, w.design.line, w.late)
			return true
		}})
	}
	for i := range 2 {
		on := func(text string, do func(*rules, *world, *daemon) bool) {
			all = append(all, move{fmt.Sprintf("daemon %c %s", 'A'+i, text), func(r *rules, w *world) bool { return do(r, w, &w.daemons[i]) }})
		}
		on("starts", func(r *rules, w *world, d *daemon) bool {
			// The second one only ever runs on a copy.
			if d.running || i == 1 && d.name == "" || !r.spend(w, starts) {
				return false
			}
			fresh := d.name == ""
			r.start(w, d)
			if fresh && d.claimed {
				w.people.beginAnew()
			}
			if d.older && d.claimed {
				w.people.forget(d.known)
				d.older, d.known = false, 0
			}
			return true
		})
		on("publishes its ledger", func(r *rules, w *world, d *daemon) bool {
			if !d.running || r.denied != publishedSoon {
				return false
			}
			w.publish(d)
			return true
		})
		on("dies", func(_ *rules, _ *world, d *daemon) bool {
			ok := d.running
			d.stop()
			return ok
		})
		for n := range maxRead {
			on(fmt.Sprintf("is told to approve set %d of those that people have read", n+1), func(r *rules, w *world, d *daemon) bool {
				if !d.running || r.refuses(w, d) || n >= len(w.people.read) || !r.spend(w, decisions) {
					return false
				}
				read := w.people.read[n]
				if !r.approve(w, d, read) {
					return false
				}
				w.people.decides(read, "", w.late)
				return true
			})
		}
		on("is told to disapprove", func(r *rules, w *world, d *daemon) bool {
			if !d.running || r.refuses(w, d) || !d.account.HasOpen() {
				return false
			}
			r.disapprove(w, d)
			return true
		})
		on("passes the gates", func(r *rules, w *world, d *daemon) bool { return d.running && r.beginStep(w, d) })
		on("gets the permission to erase", func(r *rules, w *world, d *daemon) bool { return d.running && r.permit(w, d) })
		on("erases the disks", func(r *rules, w *world, d *daemon) bool {
			ok := d.running && d.permitted
			if ok {
				r.write(w, d)
			}
			return ok
		})
		on("is told that nobody else acts for the site", func(r *rules, w *world, d *daemon) bool {
			other := &w.daemons[1-i]
			if !d.running || !d.barred || other.running && r.denied != personIsRight {
				return false
			}
			r.takeOver(w, d)
			w.people.beginAnew()
			return true
		})
		on("is told to remove the node that has left", func(r *rules, w *world, d *daemon) bool {
			if !d.running || r.refuses(w, d) || w.design.has || d.step.begun || !r.spend(w, removals) {
				return false
			}
			r.remove(w, d)
			return true
		})
	}
	return all
}()

// maxRead is how many losses people can have read.
const maxRead = 8

func (w *world) isPermitted() bool { return w.daemons[0].permitted || w.daemons[1].permitted }

// settle has everybody see what has happened.
func (r *rules) settle(w *world) {
	w.look()
	for i := range w.daemons {
		if d := &w.daemons[i]; d.running {
			r.reconcile(w, d)
		}
	}
	w.look()
}

// found is what an exploration has found.
type found struct {
	states, moves, depth int
	wrong                string
	trace                []string
}

// explore goes through all states that can be reached, the near ones first, until
// a rule is broken.
func (r *rules) explore() found {
	type step struct {
		from int
		by   int
	}
	first := &world{design: design{has: true, generation: 1}, machine: machine{disks: 'a'}}
	r.settle(first)
	seen := map[string]struct{}{first.key(): {}}
	came := []step{{-1, 0}}
	var f found
	type entry struct {
		w *world
		n int
	}
	layer := []entry{{first, 0}}
	w := new(world)
	for ; len(layer) > 0; f.depth++ {
		var next []entry
		for _, e := range layer {
			for by := range moves {
				*w = *e.w
				if !moves[by].do(r, w) {
					continue
				}
				r.settle(w)
				f.moves++
				k := w.key()
				if _, known := seen[k]; known {
					continue
				}
				seen[k] = struct{}{}
				came = append(came, step{e.n, by})
				n := len(came) - 1
				if len(w.people.read) > maxRead {
					w.wrong = "the model is too small for what people have read"
				}
				if w.wrong != "" {
					f.wrong, f.states = w.wrong, len(seen)
					for ; n > 0; n = came[n].from {
						f.trace = append([]string{moves[came[n].by].name}, f.trace...)
					}
					return f
				}
				kept := *w
				next = append(next, entry{&kept, n})
			}
		}
		layer = next
	}
	f.states = len(seen)
	return f
}
