package dev.leasehold.spring.boot;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Method of a bean that runs under a lock, as the work of {@link dev.leasehold.LockRequest#run}: its thread is interrupted if the lock is lost or
 * the application stops, which waits for the method. The annotation counts for calls from other beans and for {@code @Scheduled}. The method must not
 * return a future, since the lock is released when it returns.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface WithLock {
    /**
     * Returns the lock's name. What is between <code>#{</code> and <code>}</code> is an expression of Spring, such as <code>orders/#{#id}</code>
     * for a parameter {@code id}, whose name has to be compiled in ({@code -parameters}), or <code>#{#p0}</code> for the first one.
     */
    String value();

    /** Returns the longest wait, such as {@code 5s} or {@code 0s}. Default: that of the client. */
    String waitAtMost() default "";

    /** Returns whether the method is skipped, and returns null, if the lock is busy. Default: false. */
    boolean skipIfBusy() default false;
}
