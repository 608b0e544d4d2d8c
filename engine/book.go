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

// openBook continues the recorded ledger, or begins one.
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
	if err := e.readProofs(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.book, e.accounts = book, snap.Accounts
	return nil
}

// beginAnew restarts the ledger as if these records were new. It ends all approvals, and nothing
// shown before can be approved. The published claim of another daemon, if any, counts from now on as
// published from these records.
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
	book.Key, book.Cluster = e.currentBook().Key, e.Cluster
	if claim != "" {
		book.Claims = []string{claim}
	}
	if err := e.Records.PutBook(ctx, book); err != nil {
		return fmt.Errorf("start the ledger again: %w", err)
	}
	e.openAccountsIn(book)
	return nil
}

// openAccountsIn continues the accounts in another book.
func (e *Engine) openAccountsIn(book record.Book) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.book = book
	for name := range e.workers {
		e.setAccountLocked(name, e.accountLocked(name))
	}
}

// currentBook returns the book as it is recorded. It changes only with booking held.
func (e *Engine) currentBook() record.Book {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book
}

// setBook takes over a book that was recorded. Call it with booking held.
func (e *Engine) setBook(book record.Book) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.book = book
}

// noteLines records which lines of a design count as approvals, right before the design comes into
// force. A line counts if its author can have read what it approves. A commit that predicts the
// digest of its own losses approves nothing.
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

// bookWithLines returns the book with the design's lines that count, and whether it equals the
// recorded one.
func (e *Engine) bookWithLines(design *site.Site) (book record.Book, same bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waitingLocked() // the present set counts as shown from here on
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

// isBlank reports whether the records may lack what earlier records had.
func (e *Engine) isBlank() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book.Blank
}

// fillBook notes that the records are complete once every machine was seen since they began.
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

// hasSeenAll reports whether every machine of the design was seen.
func (e *Engine) hasSeenAll() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.design != nil
	for _, w := range e.workers {
		all = all && w.turned && !w.blind
	}
	return all
}
