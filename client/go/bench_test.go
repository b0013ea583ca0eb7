package leasehold_test

import (
	"fmt"
	"testing"

	"leasehold.dev/go/internal/servertest"
)

// BenchmarkLock acquires and releases a lock that nobody else wants, one after the other and from 64 goroutines that share a session.
// LEASEHOLD_SERVER names an optimized build.
func BenchmarkLock(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			c := connect(b, servertest.Start(b).URL)
			next := make(chan int, goroutines)
			for i := range goroutines {
				next <- i
			}
			b.SetParallelism(goroutines)
			b.ResetTimer()
			// Of the goroutines that this makes, so many are at work.
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					lock := <-next
					hold, err := c.Lock(fmt.Sprint("bench/", lock)).Acquire(b.Context())
					if err == nil {
						err = hold.Release(b.Context())
					}
					next <- lock
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkCheck reads the clock, as before each step of work.
func BenchmarkCheck(b *testing.B) {
	c := connect(b, servertest.Start(b).URL)
	hold := acquire(b, c.Lock("bench"))
	for b.Loop() {
		if err := hold.Check(); err != nil {
			b.Fatal(err)
		}
	}
}
