package engine

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/slipway-gitops/slipway/engine/ledger"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// openBook goes on with the ledger that was recorded, or begins one.
func (e *Engine) openBook(ctx context.Context, snap record.Snapshot) error {
	book := snap.Book
	if book.Records == "" {
		book = record.NewBook(snap.Accepted == nil)
	}
	if e.Key != nil && !e.ObserveOnly {
		book.Key = e.Key.Public()
	}
	if !reflect.DeepEqual(book, snap.Book) {
		if err := e.Records.PutBook(ctx, book); err != nil {
			return fmt.Errorf("begin the ledger: %w", err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.book, e.accounts = book, snap.Accounts
	return nil
}

// beginAnew has the ledger begin as if these records were new: what was approved
// ends, and nothing that was shown before can be approved. The published claim of
// another daemon, if any, counts as one of these records from now on.
func (e *Engine) beginAnew(ctx context.Context, claim string) error {
	e.booking.Lock()
	defer e.booking.Unlock()
	over := func(string) ledger.Why {
		return func(site.LedgerEntry) string { return "another daemon acted for the site, and may have used it" }
	}
	if err := e.end(ctx, e.accountNames(), over); err != nil {
		return err
	}
	book := record.NewBook(true)
	book.Key = e.currentBook().Key
	if claim != "" {
		book.Claims = []string{claim}
	}
	if err := e.Records.PutBook(ctx, book); err != nil {
		return fmt.Errorf("start the ledger again: %w", err)
	}
	e.openAccountsIn(book)
	return nil
}

// openAccountsIn has the accounts go on in another book.
func (e *Engine) openAccountsIn(book record.Book) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.book = book
	for name := range e.workers {
		e.setAccountLocked(name, e.accountLocked(name))
	}
}

// currentBook is the book as it is recorded. It changes with booking held alone.
func (e *Engine) currentBook() record.Book {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book
}

// setBook takes over a book that was recorded. It is called with booking held.
func (e *Engine) setBook(book record.Book) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.book = book
}

// noteLines records which lines of a design that is about to come into force count
// as approvals: whoever wrote them can have read what they approve. A commit that
// foretells what it will itself destroy approves nothing.
func (e *Engine) noteLines(ctx context.Context, design *site.Site) error {
	e.booking.Lock()
	defer e.booking.Unlock()
	book, same := e.bookWithLines(design)
	if same {
		return nil
	}
	if err := e.Records.PutBook(ctx, book); err != nil {
		return fmt.Errorf("record what the design approves: %w", err)
	}
	e.setBook(book)
	return nil
}

// bookWithLines is the book with the lines of a design that count, and whether it is the one that is
// recorded.
func (e *Engine) bookWithLines(design *site.Site) (book record.Book, same bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.design != nil {
		e.waitingLocked() // it is shown from here on at the latest
	}
	var before map[string]site.Approval
	if e.design != nil {
		before = e.design.Approvals
	}
	book = e.book
	book.Lines = nil
	for _, digest := range slices.Sorted(maps.Keys(design.Approvals)) {
		_, shown := e.shown[digest]
		_, had := before[digest]
		if shown && !had || slices.Contains(e.book.Lines, digest) {
			book.Lines = append(book.Lines, digest)
		}
	}
	return book, slices.Equal(book.Lines, e.book.Lines)
}

// isBlank says whether the records may lack what others before them had.
func (e *Engine) isBlank() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book.Blank
}

// fillBook notes that the records lack nothing any more: every machine was seen
// since they began.
func (e *Engine) fillBook(ctx context.Context) error {
	if !e.isBlank() {
		return nil
	}
	e.booking.Lock()
	defer e.booking.Unlock()
	if !e.hasSeenAll() {
		return nil
	}
	book := e.currentBook()
	book.Blank = false
	if err := e.Records.PutBook(ctx, book); err != nil {
		return fmt.Errorf("record that all machines were seen: %w", err)
	}
	e.setBook(book)
	return nil
}

// hasSeenAll says whether each machine of the design was seen.
func (e *Engine) hasSeenAll() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.design != nil
	for _, w := range e.workers {
		all = all && w.turned && !w.blind
	}
	return all
}
