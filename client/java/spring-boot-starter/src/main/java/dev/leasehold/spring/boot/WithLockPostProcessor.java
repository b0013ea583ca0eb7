package dev.leasehold.spring.boot;

import dev.leasehold.Hold;
import dev.leasehold.LeaseholdClient;
import dev.leasehold.LockRequest;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.expression.Expression;
import org.springframework.expression.common.CompositeStringExpression;
import org.springframework.expression.common.TemplateParserContext;
import org.springframework.expression.spel.standard.SpelExpressionParser;

/** Post-processor that puts methods with {@link WithLock} under their locks. */
public final class WithLockPostProcessor extends AbstractBeanFactoryAwareAdvisingPostProcessor {
    private static final long serialVersionUID = 1;

    private static final ThreadLocal<Deque<Hold>> HELD = ThreadLocal.withInitial(ArrayDeque::new);

    /** Makes the post-processor, which asks for the client when the first method is called. */
    public WithLockPostProcessor(ObjectProvider<LeaseholdClient> client) {
        // Before that of scheduled methods, which would take the method as it is.
        setOrder(0);
        setBeforeExistingAdvisors(true);
        advisor = new DefaultPointcutAdvisor(AnnotationMatchingPointcut.forMethodAnnotation(WithLock.class), new Interceptor(client));
    }

    /**
     * Returns the lock of the innermost method with {@link WithLock} that runs on this thread.
     *
     * @throws IllegalStateException if none does
     */
    public static Hold heldLock() {
        Hold held = HELD.get().peek();
        if (held == null) {
            HELD.remove();
            throw new IllegalStateException("no method with @WithLock runs on this thread");
        }
        return held;
    }

    private static final class Interceptor implements MethodInterceptor {
        private final ObjectProvider<LeaseholdClient> client;
        private final SpelExpressionParser parser = new SpelExpressionParser();
        private final DefaultParameterNameDiscoverer names = new DefaultParameterNameDiscoverer();

        private Interceptor(ObjectProvider<LeaseholdClient> client) {
            this.client = client;
        }

        @Override
        public Object invoke(MethodInvocation call) throws Throwable {
            var method = AopUtils.getMostSpecificMethod(call.getMethod(), call.getThis() == null ? null : call.getThis().getClass());
            Class<?> returned = method.getReturnType();
            if (CompletionStage.class.isAssignableFrom(returned) || Future.class.isAssignableFrom(returned)) {
                throw new IllegalStateException("@WithLock is on a method that returns a future: " + method);
            }
            WithLock asked = AnnotationUtils.findAnnotation(method, WithLock.class);
            String name = asked.value();
            if (name.contains("#{")) {
                name = evaluated(name, new MethodBasedEvaluationContext(call.getThis(), method, call.getArguments(), names));
            }
            LockRequest request = client.getObject().lock(name);
            if (!asked.waitAtMost().isEmpty()) {
                request = request.waitAtMost(DurationStyle.detectAndParse(asked.waitAtMost()));
            }
            Object[] result = new Object[1];
            boolean[] hasBegun = new boolean[1];
            try {
                if (asked.skipIfBusy()) {
                    request.tryRun(hold -> result[0] = proceed(call, hold, hasBegun));
                } else {
                    request.run(hold -> result[0] = proceed(call, hold, hasBegun));
                }
                return result[0];
            } catch (InterruptedException e) {
                if (hasBegun[0]) {
                    throw e;
                }
                // Methods need not declare it.
                Thread.currentThread().interrupt();
                throw new CancellationException("interrupted while waiting for lock \"" + name + "\"");
            }
        }

        /** Returns the name with the values of its expressions; one without a value would make one lock of many. */
        private String evaluated(String name, MethodBasedEvaluationContext context) {
            Expression parsed = parser.parseExpression(name, new TemplateParserContext());
            StringBuilder text = new StringBuilder();
            for (Expression part : parsed instanceof CompositeStringExpression several ? several.getExpressions() : new Expression[] {parsed}) {
                Object value = part.getValue(context);
                if (value == null) {
                    throw new IllegalStateException("\"" + part.getExpressionString() + "\" in the name of a lock has no value");
                }
                text.append(value);
            }
            return text.toString();
        }

        private static Object proceed(MethodInvocation call, Hold hold, boolean[] hasBegun) throws Exception {
            hasBegun[0] = true;
            Deque<Hold> held = HELD.get();
            held.push(hold);
            try {
                return call.proceed();
            } catch (Exception | Error e) {
                throw e;
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            } finally {
                held.pop();
                if (held.isEmpty()) {
                    HELD.remove();
                }
            }
        }
    }
}
